package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// client answers questions with a function.
type client func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)

func (client) Notify(string, wire.Raw) {}
func (f client) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	return f(ctx, method, params)
}

// server answers with its results in order and records the params of requests.
type server struct {
	results []string
	got     []string
	at      []time.Duration
	began   time.Time
}

func (s *server) do(_ context.Context, c *call.Call) (call.Result, error) {
	s.got = append(s.got, string(c.Params))
	s.at = append(s.at, time.Since(s.began))
	next := s.results[0]
	if len(s.results) > 1 {
		s.results = s.results[1:]
	}
	return call.Result{Raw: wire.Raw(next), Revision: wire.Rev20260728}, nil
}

func rounds(t *testing.T, c client, results ...string) (string, *server, error) {
	t.Helper()
	s := &server{results: results[1:], began: time.Now()}
	cl := &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"t","_meta":{"progressToken":1}}`), Back: c}
	res, err := AnswerRounds(t.Context(), cl, call.Result{Raw: wire.Raw(results[0])}, s.do)
	return string(res.Raw), s, err
}

func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := client(func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
			time.Sleep(time.Second)
			return wire.Raw(fmt.Sprintf(`{"m":%q,"p":%s}`, method, string(params)+strings.Repeat(`null`, 1-min(1, len(params))))), nil
		})
		got, s, err := rounds(t, answer,
			`{"resultType":"input_required","inputRequests":{"k\u0031":{"method":"elicitation/create","params":{"message":"a"}},"k2":{"method":"roots/list"}},"requestState":"s\u00601"}`,
			`{"resultType":"input_required","inputRequests":{"k1":{"method":"sampling/createMessage","params":{}}}}`,
			`{"resultType":"complete","content":[]}`)
		if err != nil || got != `{"resultType":"complete","content":[]}` {
			t.Fatalf("got %s, %v", got, err)
		}
		want := []string{
			`{"name":"t","_meta":{"progressToken":1},"inputResponses":{"k\u0031":{"m":"elicitation/create","p":{"message":"a"}},"k2":{"m":"roots/list","p":null}},"requestState":"s\u00601"}`,
			`{"name":"t","_meta":{"progressToken":1},"inputResponses":{"k1":{"m":"sampling/createMessage","p":{}}}}`,
		}
		if diff := cmp.Diff(want, s.got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second}, s.at); diff != "" {
			t.Errorf("the questions of a round are not asked at once: %s", diff)
		}
	})
}

func TestStateWithoutQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := `{"resultType":"input_required","requestState":"s"}`
		got, s, err := rounds(t, nil, wait, wait, wait, `{"content":[]}`)
		if err != nil || got != `{"content":[]}` {
			t.Fatalf("got %s, %v", got, err)
		}
		if s.got[2] != `{"name":"t","_meta":{"progressToken":1},"requestState":"s"}` {
			t.Errorf("the retry is %s", s.got[2])
		}
		if diff := cmp.Diff([]time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 350 * time.Millisecond}, s.at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRoundsThatFail(t *testing.T) {
	refused := wire.Errorf(-1, "the user refused")
	deny := client(func(context.Context, string, wire.Raw) (wire.Raw, error) { return nil, refused })
	ask := func(method string) string {
		return `{"resultType":"input_required","inputRequests":{"a":{"method":"` + method + `"},"b":{"method":"` + method + `"}},"requestState":"s"}`
	}
	for _, tc := range []struct {
		name  string
		first string
		err   string // of the call, "" if it continues
	}{
		{"elicitation", ask(wire.MethodElicit), ""},
		{"sampling", ask(wire.MethodSample), "the user refused (-1)"},
		{"roots", ask(wire.MethodRootsList), "the user refused (-1)"},
		{"an unknown question", ask("mind/read"), `the upstream asked a question of a kind that is not known: "mind/read" (-32603)`},
		{"nothing", `{"resultType":"input_required"}`, "the upstream asked for input without saying which (-32603)"},
		{"no end", ask(wire.MethodElicit) + "∞", "the upstream asked for input more than 32 times (-32603)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, endless := strings.CutSuffix(tc.first, "∞")
			last := `{"content":[]}`
			if endless {
				last = first
			}
			_, s, err := rounds(t, deny, first, last)
			if got := fmt.Sprint(err); tc.err != "" && got != tc.err || tc.err == "" && err != nil {
				t.Fatalf("error is %v, want %q", err, tc.err)
			}
			switch {
			case endless:
				if len(s.got) != 32 {
					t.Errorf("sent %d times again, want 32", len(s.got))
				}
			case tc.err == "":
				if !strings.Contains(s.got[0], `"a":{"action":"cancel"},"b":{"action":"cancel"}`) {
					t.Errorf("the retry is %s", s.got[0])
				}
			case len(s.got) != 0:
				t.Errorf("sent again: %s", s.got)
			}
		})
	}
}

func TestTheFirstErrorCancelsOtherQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(func(ctx context.Context, method string, _ wire.Raw) (wire.Raw, error) {
			if method == wire.MethodRootsList {
				return nil, wire.Errorf(wire.CodeInternal, "no roots")
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		_, _, err := rounds(t, c, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"},"b":{"method":"roots/list"}}}`, `{}`)
		if fmt.Sprint(err) != "no roots (-32603)" {
			t.Errorf("error is %v", err)
		}
	})
}

func TestRoundsEndWithTheCall(t *testing.T) {
	for _, first := range []string{
		`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}`,
		`{"resultType":"input_required","requestState":"s"}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := client(func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) { return nil, ctx.Err() })
		_, err := AnswerRounds(ctx, &call.Call{Back: c}, call.Result{Raw: wire.Raw(first)}, nil)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
}
