package router

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

func TestAttacksOnConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := confirmAll
		h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), rule)
		state := h.asks(t, asksFor)
		other := `{"name":"files__remove","arguments":{}}`
		for name, params := range map[string]string{
			"no state":        strings.TrimSuffix(asksFor, "}") + `,"inputResponses":` + accept + `}`,
			"other arguments": retry(strings.Replace(asksFor, "/a", "/b", 1), state, accept),
			"another tool":    retry(other, state, accept),
			"a made-up state": retry(asksFor, "AgEC", accept),
			"a relayed state": retry(asksFor, h.sealer.Seal(bridge.State{Kind: bridge.UpstreamState, Recipient: "files", Text: "x", Expires: time.Now().Add(time.Hour)}, bridge.BindingOf(callOf(wire.Rev20260728, allCaps, asksFor, nil))), accept),
			"another process": retry(asksFor, h.sealer.Seal(bridge.State{Kind: bridge.Consent, Recipient: "files", Token: newMemoryTokens().New(t.Context()), Expires: time.Now().Add(time.Hour)}, bridge.BindingOf(callOf(wire.Rev20260728, allCaps, asksFor, nil))), accept),
		} {
			res, err := h.round(t, params)
			if err == nil && !res.Get("resultType").IsString("input_required") || h.files.got != nil {
				t.Errorf("%s: got %s, %v; the upstream got %v", name, res.Raw(), err, h.files.got)
			}
		}
		routes := *h.Routes()
		routes.Profiles = map[string]*catalog.Table{"coding": routes.Table}
		h.Swap(&routes)
		for name, who := range map[string]*call.Principal{
			"another principal's": {Subject: "mallory"}, "another profile's": call.Anonymous.In("coding"),
		} {
			c := callOf(wire.Rev20260728, allCaps, retry(asksFor, state, accept), &recorder{})
			c.Principal = who
			if _, err := h.Handle(t.Context(), c); wantFault(t, err, -32602) != errState || h.files.got != nil {
				t.Errorf("%s consent was accepted", name)
			}
		}
		time.Sleep(defaultAskTimeout + time.Second)
		if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602) != errState || h.files.got != nil {
			t.Error("an expired consent was accepted")
		}
	})
}

// uncertainTokens cannot find out whether a token was redeemed.
type uncertainTokens struct{ OneTimeTokens }

func (uncertainTokens) Redeem(context.Context, string, time.Time) (bool, error) {
	return false, errors.New("the store is away")
}

// A consent of which nobody knows whether it was used makes no call, and the error says that it may be sent again.
func TestConsentThatIsUncertain(t *testing.T) {
	h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
	state := h.asks(t, asksFor)
	tokens := h.tokens
	h.tokens = uncertainTokens{tokens}
	_, err := h.round(t, retry(asksFor, state, accept))
	if fault := wantFault(t, err, -32603); !strings.Contains(string(fault.Data), `"retryable":true`) || h.files.got != nil {
		t.Errorf("got %v with %s; the upstream got %v", err, fault.Data, h.files.got)
	}
	h.tokens = tokens
	if _, err := h.round(t, retry(asksFor, state, accept)); err != nil || h.files.got == nil {
		t.Errorf("the state cannot be used later: %v", err)
	}
}

// A consent is valid for all rounds of its call, once for each round.
func TestConsentInLaterRounds(t *testing.T) {
	n := 0
	up := modern(func(c *call.Call) string {
		if n++; n < 3 {
			return `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}},"requestState":"theirs"}`
		}
		return `{"content":[]}`
	})
	h := routerWithRules(t, up, filesSource(t), confirmAll)
	res, err := h.round(t, retry(asksFor, h.asks(t, asksFor), accept))
	if err != nil {
		t.Fatal(err)
	}
	const answer = `{"who":{"action":"accept"}}`
	first := res.Get("requestState").Str()
	res, err = h.round(t, retry(asksFor, first, answer))
	if err != nil || !strings.Contains(string(h.files.got.Params), `"requestState":"theirs"`) {
		t.Fatalf("got %s, %v", res.Raw(), err)
	}
	if _, err := h.round(t, retry(asksFor, first, answer)); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
		t.Error("a round of a confirmed call was repeated")
	}
	res, err = h.round(t, retry(asksFor, res.Get("requestState").Str(), answer))
	if err != nil || string(res.Raw()) != `{"content":[]}` {
		t.Errorf("got %s, %v; want the result without another question", res.Raw(), err)
	}
}

func TestWithdrawnRights(t *testing.T) {
	h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
	state := h.asks(t, asksFor)
	routes := *h.Routes()
	routes.Table = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{})}, []catalog.Source{filesSource(t)})
	h.Swap(&routes)
	if _, err := h.round(t, retry(asksFor, state, accept)); wantFault(t, err, -32602).Message != `unknown tool: "files__read"` || h.files.got != nil {
		t.Error("a consent overrides policy")
	}
}

// A server may return no request state. The consent stays valid, once for each round, and the
// server receives the answers of the round.
func TestConsentWithoutAStateOfTheUpstream(t *testing.T) {
	for name, state := range map[string]string{"none": "", "null": `,"requestState":null`} {
		t.Run(name, func(t *testing.T) {
			up := modern(func(c *call.Call) string {
				if wire.ValueOf(c.Params).Get("inputResponses").Exists() {
					return `{"content":[]}`
				}
				return `{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?"}}}` + state + `}`
			})
			h := routerWithRules(t, up, filesSource(t), confirmAll)
			res, err := h.round(t, retry(asksFor, h.asks(t, asksFor), accept))
			if err != nil {
				t.Fatal(err)
			}
			const answer = `{"who":{"action":"accept"}}`
			second := retry(asksFor, res.Get("requestState").Str(), answer)
			if res, err = h.round(t, second); err != nil || string(res.Raw()) != `{"content":[]}` {
				t.Fatalf("got %s, %v; want the result without another question", res.Raw(), err)
			}
			want := strings.TrimSuffix(strings.Replace(asksFor, "files__read", "read", 1), "}") + `,"inputResponses":` + answer + `}`
			if got := string(h.files.got.Params); got != want {
				t.Errorf("the upstream got %s, want %s", got, want)
			}
			if _, err := h.round(t, second); wantFault(t, err, -32602) != errUsed || h.files.got != nil {
				t.Error("a round of a confirmed call was repeated")
			}
		})
	}
}
