package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// The log line of a call that failed says why, and so does the end in the audit.
func TestFailedCallsSayWhy(t *testing.T) {
	fails := func(err error) *fakeUpstream {
		return &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) { return call.Result{}, err }}
	}
	theirs := func(code int64, message string) error {
		raw, _ := json.Marshal(map[string]any{"code": code, "message": message})
		return &wire.Error{Code: code, Message: message, Raw: raw}
	}
	timeout := wire.Errorf(wire.CodeInternal, "the upstream files is unavailable: too slow").WithData(wire.Raw(`{"reason":"the server did not answer within 1s"}`))
	limited := policy.Rule{
		Name: "once", Effect: policy.Allow, What: policy.What{Tools: []string{"*"}},
		Limit: &policy.Limit{Rate: 1. / 60, Unit: time.Minute, Burst: 1},
	}
	for _, tt := range []struct {
		name    string
		up      *fakeUpstream
		down    *catalog.Down
		rules   []policy.Rule
		calls   int
		params  string
		outcome string
		reason  string
	}{
		{name: "no failure", up: answers(`{"content":[]}`), outcome: "ok"},
		{name: "refused", up: answers(`{}`), params: `{"name":"files__gone"}`, outcome: "refused", reason: "there is no such tool"},
		{name: "tool error", up: answers(`{"content":[],"isError":true}`), outcome: "tool_error", reason: "the tool reports an error in its result"},
		{name: "down", up: answers(`{}`), down: &catalog.Down{Reason: "connection refused"}, outcome: "unavailable", reason: "connection refused"},
		{name: "timeout", up: fails(timeout), outcome: "unavailable", reason: "the server did not answer within 1s"},
		{name: "without data", up: fails(wire.Errorf(wire.CodeMissingCapability, "the client lacks elicitation")), outcome: "error", reason: "the client lacks elicitation"},
		{
			name: "capabilities", up: fails(missingCapability(wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{}}`))), outcome: "error",
			reason: "the request needs a capability that the client did not declare: elicitation.form, elicitation.url, sampling",
		},
		{
			name: "of the server", up: fails(theirs(-32001, "disk\nfull\x1b[31m, said\u202e it")), outcome: "error",
			reason: "the server answered with error -32001: disk full[31m, said it",
		},
		{
			name: "long", up: fails(theirs(-1, strings.Repeat("long ", 1000))), outcome: "error",
			reason: "the server answered with error -1: " + strings.Repeat("long ", 51) + "l…",
		},
		{
			name: "repeats arguments", params: `{"name":"files__read","arguments":{"pin":4711,"deep":[{"key":"hunter2"}],"is":"a","yes":true}}`,
			up: fails(theirs(-1, "no hunter2 a true for 4711")), outcome: "error", reason: "the server answered with error -1: no […] a true for […]",
		},
		{name: "limit", up: answers(`{"content":[]}`), rules: []policy.Rule{limited}, calls: 2, outcome: "limited", reason: `the limit of rule "once", 1 call per minute for each principal, is reached`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			b := &fakeAuditor{}
			src := filesSource(t)
			if tt.down != nil {
				src = source(t, "files", tt.down)
			}
			if tt.rules == nil {
				tt.rules = []policy.Rule{{Name: "all", Effect: policy.Allow, What: policy.What{Tools: []string{"*"}}}}
			}
			if tt.params == "" {
				tt.params = `{"name":"files__read"}`
			}
			h := auditedRouter(t, tt.up, src, &Audit{To: b}, tt.rules...)
			h.logTo(zap.New(core))
			var failed []FailedCall
			h.onFailed = func(f FailedCall) { failed = append(failed, f) }
			for range max(tt.calls, 1) {
				_, _ = h.Handle(t.Context(), newCall("tools/call", tt.params, &recorder{}))
			}
			entries := logs.All()
			got := entries[len(entries)-1].ContextMap()
			reason, _ := got["reason"].(string)
			if got["outcome"] != tt.outcome || reason != tt.reason {
				t.Errorf("outcome %v, reason %q, want %s, %q", got["outcome"], reason, tt.outcome, tt.reason)
			}
			if tt.down != nil && got["upstream"] != "files" {
				t.Errorf("the line names the upstream %v, want files", got["upstream"])
			}
			if fails := tt.outcome == "error" || tt.outcome == "unavailable"; fails != (len(failed) == 1) ||
				fails && failed[0] != (FailedCall{"files", "tools/call", "files__read", "r1", tt.reason}) {
				t.Errorf("failed calls: %+v", failed)
			}
			if first := b.lines[0]; !strings.Contains(first, `"event":"decision"`) || tt.outcome != "refused" && !strings.Contains(first, `"effect":"allow","rule":`) {
				t.Errorf("the first line of the audit is no decision: %s", first)
			}
			var end struct{ Event, Outcome, Reason string }
			if err := json.Unmarshal([]byte(b.lines[len(b.lines)-1]), &end); err != nil {
				t.Fatal(err)
			}
			if end.Event != "end" || end.Outcome != tt.outcome || end.Reason != tt.reason {
				t.Errorf("the audit ends with %+v, want %s, %q", end, tt.outcome, tt.reason)
			}
		})
	}
}

// The line of a call that the gateway ended names the cause: the client did not give up.
func TestCallsThatTheGatewayEndsSayWhy(t *testing.T) {
	for cause, want := range map[error]struct {
		reason string
		code   int64 // in the audit; a client that is gone gets no error
	}{
		errors.New("the gateway is shutting down"): {"the gateway is shutting down", wire.CodeInternal},
		call.ClientGone("the client cancelled it"): {"the client cancelled it", 0},
		nil: {"the connection of the client has ended", 0},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := &fakeAuditor{}
		h := auditedRouter(t, &fakeUpstream{answer: func(ctx context.Context, _ *call.Call) (call.Result, error) {
			cancel(cause)
			return call.Result{}, ctx.Err()
		}}, filesSource(t), &Audit{To: b}, policy.Rule{Name: "all", Effect: policy.Allow})
		core, logs := observer.New(zap.InfoLevel)
		h.logTo(zap.New(core))
		_, _ = h.Handle(ctx, newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
		if got := logs.All()[0].ContextMap(); got["outcome"] != "cancelled" || got["reason"] != want.reason {
			t.Errorf("%v: outcome %v, reason %v", cause, got["outcome"], got["reason"])
		}
		var end struct {
			Code   int64
			Reason string
		}
		if err := json.Unmarshal([]byte(b.lines[len(b.lines)-1]), &end); err != nil || end.Code != want.code || end.Reason != want.reason {
			t.Errorf("%v: the audit ends with %+v, %v", cause, end, err)
		}
	}
}

var unmasked = &Router{mask: func(text string) string { return text }}

// A URI of a client is an argument, too.
func TestReasonHidesURIs(t *testing.T) {
	c := newCall("resources/read", `{"uri":"files+file:///home/alice/diary"}`, nil)
	err := &wire.Error{Code: -1, Message: "cannot open /home/alice/diary", Raw: wire.Raw(`{}`)}
	if got := unmasked.reasonOf(outcomeError, c, &logFields{}, err); strings.Contains(got, "diary") {
		t.Error(got)
	}
}

// A value is hidden although the message was cut within it, and a message is hidden if there are more values than are
// looked for.
func TestReasonHidesLongAndManyArguments(t *testing.T) {
	secret := strings.Repeat("s3cret", 1000)
	many := strings.Repeat(`"value",`, 2*maxHidden) + `"hunter2"`
	for name, tt := range map[string]struct{ arguments, message string }{
		"long": {`{"key":"` + secret + `"}`, "no such key: " + secret},
		"many": {`{"keys":[` + many + `]}`, "no such key: hunter2"},
	} {
		c := newCall("tools/call", `{"name":"files__read","arguments":`+tt.arguments+`}`, nil)
		err := &wire.Error{Code: -1, Message: tt.message, Raw: wire.Raw(`{}`)}
		got := unmasked.reasonOf(outcomeError, c, &logFields{}, err)
		if strings.Contains(got, "s3cr") || strings.Contains(got, "hunter2") || !strings.Contains(got, hiddenValue) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Secrets are replaced before a message is cut, so that the beginning of none stays, and before the audit and the status get it.
func TestReasonHidesSecrets(t *testing.T) {
	const secret = "hunter2-SECRET-abcdefghij"
	r := &Router{mask: func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }}
	c := newCall("tools/call", `{"name":"files__read","arguments":{"dsn":"first `+secret+` last"}}`, nil)
	reason := func(message string) string {
		return r.reasonOf(outcomeError, c, &logFields{}, &wire.Error{Code: -1, Message: message, Raw: wire.Raw(`{}`)})
	}
	for _, filler := range []int{0, 100, 190, 4*maxReason - 200, maxMasked - 100} {
		for n := range 100 {
			if got := reason(strings.Repeat(".", filler+n) + secret); strings.Contains(got, "hunter2") {
				t.Fatalf("after %d bytes: %s", filler+n, got)
			}
		}
	}
	if got := reason(strings.Repeat(secret, maxMasked)); strings.Contains(got, "hunt") {
		t.Error(got)
	}
	if got := reason("cannot open first " + secret + " last"); got != "the server answered with error -1: cannot open "+hiddenValue {
		t.Error(got)
	}
	for _, err := range []error{errors.New(secret), &wire.Error{Code: -1, Message: secret}, &wire.Error{Code: -1, Detail: secret}, wire.Errorf(-1, "x").WithData(wire.Raw(`{"reason":"` + secret + `"}`))} {
		if got := r.reasonOf(outcomeError, c, &logFields{}, err); got != "[redacted]" {
			t.Errorf("%#v: %s", err, got)
		}
	}
}

// answered is the error of a call that a server answered with HTTP 500 and a text.
func answered(said string) *wire.Error {
	err := wire.Errorf(wire.CodeInternal, "upstream \"files\": the server answered HTTP 500")
	err = err.WithData(wire.Raw(`{"upstream":"files","reason":"the server answered HTTP 500"}`))
	err.Explain = func(hide func(string) string) string {
		if said := hide(said); said == "" {
			return "the server answered HTTP 500"
		}
		return fmt.Sprintf("the server answered HTTP 500 (%q)", hide(said))
	}
	return err
}

// The reason quotes the text of an HTTP error, on one bounded line. The client does not get it.
func TestReasonQuotesTheTextOfAStatus(t *testing.T) {
	c := newCall("tools/call", `{"name":"files__read","arguments":{"path":"diary"}}`, nil)
	for text, want := range map[string]string{
		"":                                 "the server answered HTTP 500",
		"disk\n\tfull: diary":              `the server answered HTTP 500 ("disk full: […]")`,
		"{\n  \"error\": \"disk full\"\n}": `the server answered HTTP 500 ("{ \"error\": \"disk full\" }")`,
		strings.Repeat("x", 5000):          `the server answered HTTP 500 ("` + strings.Repeat("x", maxSaid) + `…")`,
	} {
		log := &logFields{upstream: "files"}
		if got := unmasked.reasonOf(outcomeError, c, log, answered(text)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if sent := string(answered(text).Append(nil)); strings.Contains(sent, "full") || strings.Contains(sent, "xxx") {
			t.Errorf("the client gets %s", sent)
		}
	}
}

// The words of a server leave room for the rest of a reason, such as the server's id at its end.
func TestReasonLeavesRoom(t *testing.T) {
	rest := strings.Repeat("a", 100)
	err := &wire.Error{Code: -1, Explain: func(hide func(string) string) string {
		return rest + " (" + hide(strings.Repeat("x", 5000)) + ") (request S-1)"
	}}
	c := newCall("tools/call", `{"name":"files__read"}`, nil)
	if got := unmasked.reasonOf(outcomeError, c, &logFields{}, err); !strings.HasSuffix(got, "x…) (request S-1)") || len(got) > maxReason {
		t.Error(got)
	}
	rest = strings.Repeat("a", 2*maxReason)
	if got := unmasked.reasonOf(outcomeError, c, &logFields{}, err); len(got) > maxReason+len("…") {
		t.Error(got)
	}
}

// A server may repeat arguments as they are written in JSON or in a URL.
func TestReasonHidesEscapedArguments(t *testing.T) {
	for _, value := range []string{"select \"SECARG\" from t\nwhere 1", `C:\Users\SECARG\x`, "tab\tSECARG", "<SECARG>&é😀", "a SECARG/b"} {
		arguments, err := json.Marshal(map[string]string{"x": value})
		if err != nil {
			t.Fatal(err)
		}
		c := newCall("tools/call", `{"name":"files__read","arguments":`+string(arguments)+`}`, nil)
		for _, message := range []string{value, string(arguments), strconv.Quote(string(arguments)), "GET /?x=" + url.QueryEscape(value)} {
			got := unmasked.reasonOf(outcomeError, c, &logFields{}, &wire.Error{Code: -1, Message: "bad: " + message, Raw: wire.Raw(`{}`)})
			if strings.Contains(got, "SECARG") {
				t.Errorf("%s: %s", message, got)
			}
			got = unmasked.reasonOf(outcomeError, c, &logFields{upstream: "files"}, answered("bad: "+message))
			if strings.Contains(got, "SECARG") || !strings.HasPrefix(got, `the server answered HTTP 500 ("bad: `) {
				t.Errorf("%s: %s", message, got)
			}
		}
	}
}
