package bridge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestFit(t *testing.T) {
	const (
		elicit = wire.MethodElicit
		sample = wire.MethodSample
		plain  = `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`
		url    = `{"mode":"url","url":"https://x","message":"m"}`
		titled = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"x":1}},"required":["a"]}}`
		older  = `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","x":1,"enum":["r","g"],"enumNames":["Red","Green"]}},"required":["a"]}}`
		multi  = `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["r"]}}}}}`
		text   = `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}],"maxTokens":1}`
		blocks = `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":1}`
		apart  = `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":1}`
		tools  = `{"messages":[],"tools":[]}`
		audio  = `{"messages":[{"role":"user","content":{"type":"audio","data":"","mimeType":"audio/wav"}}]}`
		used   = `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[]}]}]}`
	)
	for _, tc := range []struct {
		name           string
		revision       wire.Revision
		method, params string
		want           string // "" if no older form exists
	}{
		{"everything at 2026-07-28", wire.Rev20260728, elicit, titled, titled},
		{"everything at 2025-11-25", wire.Rev20251125, elicit, multi, multi},
		{"a URL at 2025-11-25", wire.Rev20251125, elicit, url, url},
		{"tools at 2025-11-25", wire.Rev20251125, sample, tools, tools},
		{"a plain form", wire.Rev20250618, elicit, plain, plain},
		{"a URL", wire.Rev20250618, elicit, url, ""},
		{"titled choices", wire.Rev20250618, elicit, titled, older},
		{"a choice of several", wire.Rev20250618, elicit, multi, ""},
		{"elicitation in a revision without it", wire.Rev20250326, elicit, plain, ""},
		{"sampling as ever", wire.Rev20241105, sample, text, text},
		{"several blocks", wire.Rev20250618, sample, blocks, apart},
		{"tools", wire.Rev20250618, sample, tools, ""},
		{"results of tools", wire.Rev20250618, sample, used, ""},
		{"audio", wire.Rev20250326, sample, audio, audio},
		{"audio in a revision without it", wire.Rev20241105, sample, audio, ""},
		{"audio among other content in a revision without it", wire.Rev20241105, sample, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"audio","data":"","mimeType":"audio/wav"}]}]}`, ""},
		{"roots", wire.Rev20241105, wire.MethodRootsList, `{}`, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := AdaptQuestion(&call.Client{Revision: tc.revision}, tc.method, wire.Raw(tc.params))
			if ok != (tc.want != "") {
				t.Fatalf("ok is %v", ok)
			}
			if diff := cmp.Diff(tc.want, string(got)); ok && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRequired(t *testing.T) {
	form, url, tools := `{"message":"m"}`, `{"mode":"url"}`, `{"tools":[]}`
	for _, tc := range []struct{ caps, method, params, want string }{
		{`{"elicitation":{}}`, wire.MethodElicit, form, ``},
		{`{"elicitation":{"form":{}}}`, wire.MethodElicit, form, ``},
		{`{"elicitation":{"url":{}}}`, wire.MethodElicit, form, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{}}`, wire.MethodElicit, url, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{"url":{}}}`, wire.MethodElicit, url, ``},
		{`{"elicitation":{}}`, wire.MethodElicit, `{"mode":"voice"}`, `{"elicitation":{"voice":{}}}`},
		{`{}`, wire.MethodElicit, form, `{"elicitation":{"form":{}}}`},
		{`{"sampling":{}}`, wire.MethodSample, form, ``},
		{`{"sampling":{}}`, wire.MethodSample, tools, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, wire.MethodSample, tools, ``},
		{`{}`, wire.MethodSample, form, `{"sampling":{}}`},
		{`{"roots":{"listChanged":true}}`, wire.MethodRootsList, ``, ``},
		{`{}`, wire.MethodRootsList, ``, `{"roots":{}}`},
		{`{"elicitation":{},"sampling":{},"roots":{}}`, "other/ask", ``, `{}`},
	} {
		if got := string(MissingCapabilities(&call.Client{Capabilities: wire.Raw(tc.caps)}, tc.method, wire.Raw(tc.params))); got != tc.want {
			t.Errorf("with %s %s %s needs %s, want %s", tc.caps, tc.method, tc.params, got, tc.want)
		}
	}
}

func TestRefusedAndLapsed(t *testing.T) {
	for _, tc := range []struct {
		caps, method string
		refused      string
		lapsed       string
	}{
		{`{}`, wire.MethodElicit, `{"action":"cancel"}`, `{"action":"cancel"}`},
		{`{"elicitation":{}}`, wire.MethodElicit, `-32602`, `{"action":"cancel"}`},
		{`{}`, wire.MethodSample, `-32601`, `-1`},
		{`{"sampling":{}}`, wire.MethodSample, `-32602`, `-1`},
		{`{}`, wire.MethodRootsList, `-32601`, `-32603`},
	} {
		show := func(answer wire.Raw, e *wire.Error) string {
			if e != nil {
				return string(wire.ValueOf(e.Append(nil)).Get("code").Raw())
			}
			return string(answer)
		}
		if got := show(Undeclared(&call.Client{Capabilities: wire.Raw(tc.caps)}, tc.method)); got != tc.refused {
			t.Errorf("refused %s with %s: %s, want %s", tc.method, tc.caps, got, tc.refused)
		}
		if got := show(Unanswered(tc.method)); got != tc.lapsed {
			t.Errorf("lapsed %s: %s, want %s", tc.method, got, tc.lapsed)
		}
	}
}

func TestLabelAndContext(t *testing.T) {
	for _, tc := range []struct{ method, params, want string }{
		{wire.MethodElicit, `{"message":"Your \"name\"?","x":1e2}`, `{"message":"files: Your \"name\"?","x":1e2}`},
		{wire.MethodElicit, `{"message":"cut \ud83d\u0041"}`, `{"message":"files: cut \ud83d\u0041"}`},
		{wire.MethodElicit, `{"message":""}`, `{"message":"files: "}`},
		{wire.MethodElicit, `{"message":"a","message":"b"}`, `{"message":"files: a","message":"files: b"}`},
		{wire.MethodElicit, `{"message":1}`, `{"message":1}`},
		{wire.MethodSample, `{"message":"a","includeContext":"allServers"}`, `{"message":"a","includeContext":"none"}`},
		{wire.MethodSample, `{"includeContext":"none","includeContext":"thisServer"}`, `{"includeContext":"none","includeContext":"none"}`},
		{wire.MethodRootsList, ``, ``},
	} {
		got := WithoutContext(tc.method, LabelUpstream("files", tc.method, wire.Raw(tc.params)))
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestElicitations(t *testing.T) {
	var e Elicitations
	one, two := e.PublicID("a", "1", "ann"), e.PublicID("b", "1", "bob")
	if one == two || one == "1" {
		t.Errorf("ids are %q and %q", one, two)
	}
	if again := e.PublicID("a", "1", "ann"); again != one {
		t.Errorf("asked again, the question has the id %q for ann, not %q", again, one)
	}
	if _, _, ok := e.Complete("c", "1"); ok {
		t.Error("an upstream completed the question of another one")
	}
	if client, public, ok := e.Complete("b", "1"); !ok || client != "bob" || public != two {
		t.Errorf("completed for %s, %s, %v", client, public, ok)
	}
	if _, _, ok := e.Complete("b", "1"); ok {
		t.Error("completed twice")
	}
	if e.PublicID("a", "", "ann"); len(e.open) != 1 {
		t.Errorf("%d ids are kept, want 1: a question without an id cannot complete", len(e.open))
	}
	for range 2 * maxElicitations {
		e.PublicID("a", e.PublicID("a", "", "ann"), "ann")
	}
	if len(e.open) > maxElicitations || len(e.order) > maxElicitations {
		t.Errorf("%d ids are remembered, at most %d may be", len(e.open), maxElicitations)
	}
}
