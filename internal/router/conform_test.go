package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

// routerWithItemRules returns a router whose upstream files has these rules.
func routerWithItemRules(t *testing.T, up *fakeUpstream, rules catalog.Rules, items ...string) *testRouter {
	t.Helper()
	src := filesSource(t)
	for _, it := range items {
		src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(it))
	}
	src.Items[call.Resource] = append(src.Items[call.Resource], wire.Raw(`{"name":"b","uri":"file:///b","mimeType":"text/markdown"}`))
	src.Rules = rules
	return newTestRouter(t, up, src)
}

// A result is checked after its names and URIs became public, and before it is converted to
// the client's revision.
func TestConformance(t *testing.T) {
	const (
		typed    = `{"name":"typed","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]}}`
		flat     = `{"content":[{"type":"resource","uri":"file:///b","text":"b"}]}`
		repaired = `{"content":[{"type":"resource","resource":{"uri":"files+file:///b","text":"b","mimeType":"text/markdown"}}]}`
		wrapped  = `{"toolResult":{"content":[{"type":"resource_link","uri":"file:///b","name":"b"}]}}`
	)
	tests := []struct {
		name, method, params string
		mode                 conform.Mode
		answer, want         string
		counted              []string
	}{
		{"off", "tools/call", `{"name":"files__read"}`, conform.Off, flat, flat, nil},
		{"warn", "tools/call", `{"name":"files__read"}`, conform.Warn, flat, flat, []string{"misplaced_member 2"}},
		{"repair", "tools/call", `{"name":"files__read"}`, conform.Repair, flat, repaired, []string{"misplaced_member 2", "missing_mime_type 1"}},
		{"repair members that were hidden from rewriting", "tools/call", `{"name":"files__read"}`, conform.Repair, wrapped,
			`{"content":[{"type":"text","text":"Link to a resource.\nName: b\nURI: files+file:///b"}]}`, []string{"misplaced_member 1"}},
		{"a type that was hidden from rewriting", "tools/call", `{"name":"files__read"}`, conform.Repair, `{"content":[{"type":"Resource","resource":{"url":"file:///a","text":"a"}}]}`,
			`{"content":[{"type":"resource","resource":{"uri":"files+file:///a","text":"a"}}]}`, []string{"invalid_value 1", "misplaced_member 1"}},
		{"the list's MIME type", "resources/read", `{"uri":"files+file:///b"}`, conform.Repair, `{"contents":[{"uri":"file:///b","text":"b"}]}`,
			`{"contents":[{"uri":"files+file:///b","text":"b","mimeType":"text/markdown"}]}`, []string{"missing_mime_type 1"}},
		{"the asked URI", "resources/read", `{"uri":"files+file:///b"}`, conform.Repair, `{"contents":{"text":"b","mimeType":"a/b"}}`,
			`{"contents":[{"text":"b","mimeType":"a/b","uri":"files+file:///b"}]}`, []string{"missing_member 1", "wrong_type 1"}},
		{"the tool's schema", "tools/call", `{"name":"files__typed"}`, conform.Repair, `{"content":[{"type":"text","text":"{\"n\":1}"}]}`,
			`{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`, []string{"structured_missing 1"}},
		{"strict", "tools/call", `{"name":"files__typed"}`, conform.Strict, `{"content":[],"structuredContent":{}}`,
			`{"content":[{"type":"text","text":"the upstream's answer violates the MCP specification: $.structuredContent: does not match the outputSchema of the tool: ` +
				`$: lacks \"n\" (2025-11-25, server/tools, \"Output Schema\")"}],"isError":true}`, []string{"structured_alone 1", "structured_mismatch 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := routerWithItemRules(t, answers(tt.answer), catalog.Rules{Conformance: tt.mode}, typed)
			c := newCall(tt.method, tt.params, &recorder{})
			c.Client = &call.Client{Key: "c", Revision: wire.Rev20250326}
			res, err := h.Handle(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(res.Raw)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.counted, counts(t, h.metrics.violations)); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("an error of prompts", func(t *testing.T) {
		h := routerWithItemRules(t, answers(`{"messages":7}`), catalog.Rules{Conformance: conform.Repair})
		_, err := h.Handle(t.Context(), newCall("prompts/get", `{"name":"files__explain"}`, &recorder{}))
		var rpc *wire.Error
		if !errors.As(err, &rpc) || rpc.Code != wire.CodeInternal || !strings.Contains(rpc.Message, "$.messages: must be an array of messages, not a number") {
			t.Fatalf("the error is %v", err)
		}
		data := wire.ValueOf(rpc.Data)
		if !data.Get("upstream").IsString("files") || data.Get("retryable").Kind() != 'f' || !data.Get("since").Exists() || !data.Get("reason").Exists() {
			t.Errorf("the data of the error is %s", rpc.Data)
		}
	})
}

// counts returns the values of a counter by their last label.
func counts(t *testing.T, c *prometheus.CounterVec) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		for _, m := range family.Metric {
			out = append(out, fmt.Sprintf("%s %g", m.Label[0].GetValue(), m.Counter.GetValue()))
		}
	}
	return out
}

// Every violation is counted, and each kind is logged once for each item.
func TestViolationsAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	h := routerWithItemRules(t, answers(`{"content":[{"type":"text","text":7},{"type":"text","text":8}],"isError":"no"}`), catalog.Rules{})
	h.logTo(zap.New(core))
	for range 3 {
		for _, params := range []string{`{"name":"files__read"}`, `{"name":"files__read"}`} {
			if _, err := h.Handle(t.Context(), newCall("tools/call", params, &recorder{})); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := testutil.ToFloat64(h.metrics.violations.WithLabelValues("files", "wrong_type")); got != 18 {
		t.Errorf("%g violations were counted", got)
	}
	if got := logs.FilterMessage("an upstream does not keep to the specification").All(); len(got) != 1 || got[0].ContextMap()["path"] != "$.content[0].text" {
		t.Errorf("logged: %v", got)
	}
	for i := range 2 * maxLogOnce {
		h.loggedOnce.first(loggedViolation{"files", "resources/read", fmt.Sprint(i), conform.Missing})
	}
	if len(h.loggedOnce.seen) != maxLogOnce || h.loggedOnce.first(loggedViolation{"files", "resources/read", "another", conform.Missing}) {
		t.Errorf("%d things are remembered", len(h.loggedOnce.seen))
	}
}

// The line of each call, and its end in the audit, have the kinds of violations, although each
// has a line of its own only once. That line names the call.
func TestViolationsOfACall(t *testing.T) {
	const secret = "an argument of the call"
	for _, tt := range []struct {
		name, answer    string
		mode            conform.Mode
		violations      []any
		outcome, reason string
	}{
		{"none", `{"content":[{"type":"text","text":"a"}]}`, conform.Warn, nil, outcomeOK, ""},
		{"passed", `{"content":[{"type":"text","text":7},{"type":"text","text":8},{"type":"odd"}]}`, conform.Warn, []any{"wrong_type", "unknown_block_type"}, outcomeOK, ""},
		{"repaired", `{"content":null}`, conform.Repair, []any{"missing_member"}, outcomeOK, ""},
		{"refused", `{"content":[{"type":"` + secret + `"}]}`, conform.Strict, []any{"unknown_block_type"}, outcomeToolError,
			"the upstream's answer violates the MCP specification: $.content[0].type: "},
		{"an error of the tool", `{"content":[],"isError":true}`, conform.Strict, nil, outcomeToolError, "the tool reports an error in its result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			audit := &fakeAuditor{}
			src := filesSource(t)
			src.Rules = catalog.Rules{Conformance: tt.mode}
			h := auditedRouter(t, answers(tt.answer), src, &Audit{To: audit}, policy.Rule{Name: "all", Effect: policy.Allow})
			core, logs := observer.New(zap.InfoLevel)
			h.logTo(zap.New(core))
			for _, id := range []string{"first", "second"} {
				c := newCall("tools/call", `{"name":"files__read","arguments":{"a":"`+secret+`"}}`, &recorder{})
				c.ID = id
				if _, err := h.Handle(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			for _, line := range logs.FilterMessage("an upstream does not keep to the specification").All() {
				if line.ContextMap()["request"] != "first" {
					t.Errorf("a violation names the call %v", line.ContextMap()["request"])
				}
			}
			for _, line := range logs.FilterMessage("call").All() {
				fields := line.ContextMap()
				got, _ := fields["violations"].([]any)
				reason, _ := fields["reason"].(string)
				if !cmp.Equal(got, tt.violations) || fields["outcome"] != tt.outcome || !strings.HasPrefix(reason, tt.reason) || (reason == "") != (tt.reason == "") {
					t.Errorf("the line of the call has %v", fields)
				}
				if strings.Contains(reason, secret) {
					t.Errorf("the reason %q has an argument", reason)
				}
			}
			var end struct {
				Violations      []any
				Outcome, Reason string
			}
			if err := json.Unmarshal([]byte(audit.lines[len(audit.lines)-1]), &end); err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(end.Violations, tt.violations) || end.Outcome != tt.outcome || !strings.HasPrefix(end.Reason, tt.reason) {
				t.Errorf("the end in the audit is %+v", end)
			}
		})
	}
}

// Arguments that violate the schema are not sent.
func TestValidateInput(t *testing.T) {
	const add = `{"name":"add","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`
	tests := []struct {
		name, params string
		mode         conform.Mode
		on, sent     bool
		text         string
	}{
		{"fits", `{"name":"files__add","arguments":{"n":1}}`, conform.Warn, true, true, ""},
		{"does not fit", `{"name":"files__add","arguments":{"n":"1"}}`, conform.Warn, true, false, "$.n must be of type integer, not string"},
		{"is missing", `{"name":"files__add"}`, conform.Off, true, false, `$ lacks "n"`},
		{"is not to be checked", `{"name":"files__add"}`, conform.Warn, false, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sent := false
			up := &fakeUpstream{answer: func(context.Context, *call.Call) (call.Result, error) {
				sent = true
				return call.Result{Raw: wire.Raw(`{"content":[]}`), Revision: wire.Rev20251125}, nil
			}}
			h := routerWithItemRules(t, up, catalog.Rules{Conformance: tt.mode, ValidateInput: tt.on}, add)
			res, err := h.Handle(t.Context(), newCall("tools/call", tt.params, &recorder{}))
			if err != nil {
				t.Fatal(err)
			}
			result := wire.ValueOf(res.Raw)
			if sent != tt.sent || result.Get("isError").Bool() == tt.sent {
				t.Errorf("sent: %v, result %s", sent, res.Raw)
			}
			for el := range result.Get("content").Elements() {
				if text := el.Get("text").Str(); !strings.Contains(text, tt.text) || !strings.Contains(text, "files__add") {
					t.Errorf("the error is %q, want %q", text, tt.text)
				}
			}
			if refused := testutil.ToFloat64(h.metrics.invalidInputs.WithLabelValues("files")); (refused == 0) != tt.sent {
				t.Errorf("%g refusals were counted", refused)
			}
		})
	}
}

// Text for models is sanitized in every kind of message.
func TestSanitize(t *testing.T) {
	up := &fakeUpstream{answer: func(ctx context.Context, c *call.Call) (call.Result, error) {
		if _, err := c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"message":"ask\u200b","requestedSchema":{"type":"object","properties":{}}}`)); err != nil {
			return call.Result{}, err
		}
		if c.Params != nil && strings.Contains(string(c.Params), "fail") {
			return call.Result{}, &wire.Error{Code: -32000, Message: "failed\x1b[0m", Raw: wire.Raw(`{"code":-32000,"message":"failed\u001b[0m"}`)}
		}
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"text","text":"\u001b[31mred\u0007\u202e"}]}`), Revision: wire.Rev20251125}, nil
	}}
	h := routerWithItemRules(t, up, catalog.Rules{Sanitize: sanitize.ANSI | sanitize.Control | sanitize.Invisible})
	client := &recorder{}
	ask := func(params string) (call.Result, error) {
		c := newCall("tools/call", params, client)
		c.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"elicitation":{}}`)}
		return h.Handle(t.Context(), c)
	}
	res, err := ask(`{"name":"files__read"}`)
	if err != nil || string(res.Raw) != `{"content":[{"type":"text","text":"red"}]}` {
		t.Errorf("result %s, %v", res.Raw, err)
	}
	if len(client.asks) != 1 || strings.Contains(client.asks[0], `\u200b`) || strings.Contains(client.asks[0], "\u200b") {
		t.Errorf("asks %q", client.asks)
	}
	_, err = ask(`{"name":"files__read","arguments":{"fail":true}}`)
	var rpc *wire.Error
	if !errors.As(err, &rpc) || string(rpc.Append(nil)) != `{"code":-32000,"message":"failed"}` {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"ansi 2", "control 1", "invisible 3"}, counts(t, h.metrics.sanitized)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// Findings of the table are counted by the rule that they violate.
func TestFound(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	h := routerWithItemRules(t, answers(`{}`), catalog.Rules{Sanitize: sanitize.Invisible}, `{"name":"bare"}`, `{"name":"read","inputSchema":{"type":"object"}}`,
		`{"name":"odd","inputSchema":{"type":"object"},"title":"\u200b","readOnlyHint":true}`)
	h.logTo(zap.New(core))
	for _, f := range h.Routes().Table.Findings() {
		h.ReportFinding("", f)
	}
	if diff := cmp.Diff([]string{"duplicate_item 1", "misplaced_member 1", "missing_member 1"}, counts(t, h.metrics.violations)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"invisible 1"}, counts(t, h.metrics.sanitized)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if logs.Len() != 4 {
		t.Errorf("logged: %v", logs.All())
	}
}
