package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/wire"
)

func TestQuestionIsVisibleAndBounded(t *testing.T) {
	target := catalog.Target{Kind: call.Resource, Public: "files+file:///\u202egpj.exe\u200b\x07"}
	question := func(t *testing.T, target catalog.Target, params string) string {
		t.Helper()
		q, ok := consentQuestion("files", target, wire.Raw(params))
		if !ok {
			t.Fatalf("%.100s cannot be asked about", params)
		}
		return wire.ValueOf(q).Get("message").Str()
	}
	text := question(t, target, "")
	if want := `files: may the resource files+file:///\u202egpj.exe\u200b\u0007 be read?`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	tool := catalog.Target{Kind: call.Tool, Public: "t"}
	// What fits is not cut.
	if text = question(t, tool, `{"arguments":{"sql":"`+strings.Repeat("y", 2000)+`; DROP TABLE x"}}`); !strings.HasSuffix(text, `; DROP TABLE x"}`) {
		t.Errorf("a short value is cut: %s", text)
	}
	long := func(members string) string {
		return `{"arguments":{"pad":` + string(wire.String(strings.Repeat("x\u2066", 5000))) + members + `,"more":[` + strings.Repeat(`"yyyyyyyyyy",`, 5000) + `1],"danger":"rm -rf"}}`
	}
	text = question(t, tool, long(`,"deep":[{"hidden":{"also":1}}]`))
	for _, want := range []string{`"danger": "rm -rf"`, `"deep": [{"hidden": {"also": 1}}]`, "bytes more)", "(20000 bytes, sha256 ", "elements more, sha256 of all "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if len(text) > maxQuestion {
		t.Errorf("%d bytes", len(text))
	}
	if other := question(t, tool, strings.Replace(long(`,"deep":[{"hidden":{"also":1}}]`), `"yyyyyyyyyy",1]`, `"yyyyyyyyyz",1]`, 1)); other == text {
		t.Error("two calls with other arguments have the same question")
	}
	for _, r := range text {
		if r == '\u2066' {
			t.Fatal("a mark of direction is not written out")
		}
	}
}

// What the user cannot be shown they cannot consent to.
func TestUnshownCallsAreRefused(t *testing.T) {
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, `"key%d":1,`, i)
	}
	for name, members := range map[string]string{
		"many keys":    many.String(),
		"many levels":  `"a":` + strings.Repeat("[", maxLevels) + strings.Repeat("]", maxLevels) + `,`,
		"a long key":   `"` + strings.Repeat("k", maxQuestion) + `":1,`,
		"many objects": `"a":[` + strings.Repeat(`{"b":1},`, 3000) + `1],`,
	} {
		h := ruled(t, answers(`{"content":[]}`), filesSource(t), confirmAll)
		client := &answerer{answer: `{"action":"accept"}`}
		res, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__read","arguments":{`+members+`"danger":true}}`, client))
		if err != nil || !strings.Contains(string(res.Raw), "than a question can show") || !wire.ValueOf(res.Raw).Get("isError").Bool() || h.files.got != nil || client.asks != nil {
			t.Errorf("%s: %s, %v; the upstream got %v, the client %.100q", name, res.Raw, err, h.files.got, client.asks)
		}
		if n := testutil.ToFloat64(h.metrics.asks.WithLabelValues("confirmation", askUnshown)); n != 1 {
			t.Errorf("asks_total is %v, want 1", n)
		}
	}
}
