package router

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestAttacksOnRelayedStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		h := newTestRouter(t, modern(func(*call.Call) string { return firstRound }), filesSource(t))
		h.logTo(zap.New(core))
		close(h.started)
		res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"files__read","arguments":{"n":1}}`, &recorder{}))
		if err != nil {
			t.Fatal(err)
		}
		state := wire.ValueOf(res.Raw).Get("requestState").Str()
		same := `{"name":"files__read","arguments":{"n":1},"requestState":`
		quoted := string(wire.String(state))
		flipped := []byte(state)
		at := len(flipped) / 2
		flipped[at] = map[bool]byte{true: 'B', false: 'A'}[flipped[at] == 'A']
		b := bridge.BindingOf(callOf(wire.Rev20260728, allCaps, same+`""}`, nil))
		seal := func(s *bridge.Sealer, kind bridge.StateKind, holder string) string {
			return string(wire.String(s.Seal(bridge.State{Kind: kind, Recipient: holder, Expires: time.Now().Add(time.Hour)}, b)))
		}
		for _, tc := range []struct {
			name, params, reason string
			who                  *call.Principal
			after                time.Duration
		}{
			{"tampered", same + string(wire.String(string(flipped))) + `}`, bridge.ErrTampered.Error(), nil, 0},
			{"the upstream's own", same + `"the upstream's"}`, bridge.ErrMalformed.Error(), nil, 0},
			{"no string", same + `{}}`, bridge.ErrMalformed.Error(), nil, 0},
			{"another key", same + seal(bridge.NewSealer(), bridge.UpstreamState, "files") + `}`, bridge.ErrUnknownKey.Error(), nil, 0},
			{"another upstream", same + seal(h.sealer, bridge.UpstreamState, "other") + `}`, `the request state belongs to another request: it is of kind 'r' for "other"`, nil, 0},
			{"a parked call", same + seal(h.sealer, bridge.Parked, "files") + `}`, `the request state belongs to another request: it is of kind 'p' for "files"`, nil, 0},
			{"other arguments", `{"name":"files__read","arguments":{"n":2},"requestState":` + quoted + `}`, bridge.ErrRequest.Error(), nil, 0},
			{"another principal", same + quoted + `}`, bridge.ErrPrincipal.Error(), &call.Principal{Subject: "bob"}, 0},
			{"not yet expired", same + quoted + `}`, "", nil, defaultStateTTL - time.Second},
			{"expired", same + quoted + `}`, bridge.ErrExpired.Error(), nil, 2 * time.Second},
		} {
			time.Sleep(tc.after)
			h.files.got = nil
			c := callOf(wire.Rev20260728, allCaps, tc.params, &recorder{})
			if tc.who != nil {
				c.Principal = tc.who
			}
			_, err := h.Handle(t.Context(), c)
			if tc.reason == "" {
				if err != nil || !strings.Contains(string(h.files.got.Params), `"the upstream's"`) {
					t.Errorf("%s: %v", tc.name, err)
				}
				continue
			}
			if rpc := wantFault(t, err, -32602); rpc != errState || h.files.got != nil {
				t.Errorf("%s: the client got %v, the upstream %v", tc.name, rpc, h.files.got)
			}
			entries := logs.TakeAll()
			if len(entries) != 1 || entries[0].ContextMap()["reason"] != tc.reason {
				t.Errorf("%s: logged %v, want the reason %q", tc.name, entries, tc.reason)
			}
		}
		for range 200 {
			_, _ = h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, same+`"made up"}`, &recorder{}))
		}
		if n := logs.Len(); n == 0 || n > 100 {
			t.Errorf("200 forged states are %d lines in the log", n)
		}
	})
}

// A legacy revision has no members for request states and answers. If a legacy client sends
// them, they do not pass to a modern upstream, because the gateway has not sealed them.
func TestRequestStatesOfLegacyClientsAreDropped(t *testing.T) {
	const params = `{"name":"files__read","requestState":"guessed","x":1,"inputResponses":{"who":{"action":"accept"}}}`
	for _, tc := range []struct {
		upstream wire.Revision
		want     string
	}{
		{wire.Rev20260728, `{"name":"read","x":1}`},
		{"", `{"name":"read","x":1}`}, // not yet known
		{wire.Rev20251125, strings.Replace(params, "files__read", "read", 1)},
	} {
		src := filesSource(t)
		src.Revision = tc.upstream
		h := newTestRouter(t, answers(`{"content":[]}`), src)
		if _, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, params, &recorder{})); err != nil {
			t.Fatal(err)
		}
		if got := string(h.files.got.Params); got != tc.want {
			t.Errorf("an upstream of %q got %s, want %s", tc.upstream, got, tc.want)
		}
	}
}

// Some requests cannot be answered with a question. A question in such an answer must not pass
// without label and seal.
func TestUnexpectedQuestionsAreRefused(t *testing.T) {
	for method, params := range map[string]string{
		wire.MethodComplete:          `{"ref":{"type":"ref/prompt","name":"files__explain"},"argument":{"name":"q","value":"a"}}`,
		wire.MethodResourcesMetadata: `{"uri":"files+file:///a"}`,
	} {
		for _, revision := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
			up := modern(func(*call.Call) string {
				return strings.Replace(firstRound, `{`, `{"completion":{"values":[]},"resource":{"uri":"file:///a","name":"a"},`, 1)
			})
			h := newTestRouter(t, up, filesSource(t))
			close(h.started)
			c := callOf(revision, allCaps, params, &recorder{})
			c.Method = method
			res, err := h.Handle(t.Context(), c)
			if rpc, ok := errors.AsType[*wire.Error](err); !ok || rpc.Code != wire.CodeInternal || !strings.Contains(rpc.Message, method) {
				t.Errorf("%s, %s: got %s, %v", method, revision, res.Raw, err)
			}
		}
	}
}

// A question may have a member twice. A reader that uses the last one would see another
// question: without the label, or of a kind that the client does not answer.
func TestAmbiguousQuestionsAreRefused(t *testing.T) {
	const form = `{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}`
	for name, question := range map[string]string{
		"method": `{"method":"roots/list","method":"elicitation/create","params":` + form + `}`,
		"params": `{"method":"elicitation/create","params":` + form + `,"params":{"message":"Password?"}}`,
		"mode":   `{"method":"elicitation/create","params":{"mode":"form","message":"Go","mode":"url","url":"https://x"}}`,
		"escape": `{"method":"elicitation/create","params":{"mode":"form","message":"Go","m\u006fde":"url","url":"https://x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestRouter(t, modern(func(*call.Call) string {
				return `{"resultType":"input_required","inputRequests":{"q":` + question + `}}`
			}), filesSource(t))
			res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, `{"elicitation":{"form":{}},"roots":{}}`, `{"name":"files__read"}`, &recorder{}))
			if rpc, ok := errors.AsType[*wire.Error](err); !ok || rpc.Code != wire.CodeInternal {
				t.Errorf("a modern client got %s, %v", res.Raw, err)
			}
		})
	}
	for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
		up := &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
			return call.Result{}, wire.Errorf(-32042, "open").WithData(wire.Raw(`{"elicitations":[{"mode":"url","message":"Go","message":"Come","url":"https://x"}]}`))
		}}
		_, err := newTestRouter(t, up, filesSource(t)).Handle(t.Context(), callOf(rev, allCaps, `{"name":"files__read"}`, &recorder{}))
		wantFault(t, err, wire.CodeInternal)
	}
	client := &recorder{}
	h := newTestRouter(t, asking(wire.MethodElicit, `{"mode":"form","message":"Go","mode":"url","url":"https://x"}`), filesSource(t))
	res, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__read"}`, client))
	if got := wire.ValueOf(res.Raw).Get("r").Str(); err != nil || client.asks != nil || !strings.Contains(got, "-32602") {
		t.Errorf("a legacy client was asked %q; the upstream got %s, %v", client.asks, got, err)
	}
}
