package enrich

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestAnnotations(t *testing.T) {
	const (
		outer = `{"type":"resource","annotations":{"priority":1.0},"resource":{"uri":"a:","text":"x"}}`
		inner = `{"type":"resource","resource":{"uri":"a:","text":"x","annotations":{"priority":1.0}}}`
		// the results of copying
		fromOuter = `{"type":"resource","annotations":{"priority":1.0},"resource":{"uri":"a:","text":"x","annotations":{"priority":1.0}}}`
		fromInner = `{"type":"resource","resource":{"uri":"a:","text":"x","annotations":{"priority":1.0}},"annotations":{"priority":1.0}}`

		differ  = `{"type":"resource","resource":{"uri":"a:","annotations":{"priority":0}},"annotations":{"priority":1}}`
		neither = `{"type":"resource","resource":{"uri":"a:","text":"annotations"}}`
		link    = `{"type":"resource_link","uri":"a:","annotations":{},"resource":{}}`
		odd     = `{"type":"resource","resource":"a:","annotations":{}},{"type":"resource","resource":{},"annotations":null}`

		tool      = `{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[` + inner + `,{"type":"tool_result","content":[` + inner + `]}]}]}`
		toolAfter = `{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[` + fromInner + `,{"type":"tool_result","content":[` + inner + `]}]}]}`
	)
	for _, tc := range []struct{ name, method, in, want string }{
		{"a tool, to new readers", wire.MethodToolsCall, `{"content":[` + outer + `],"x":1e2}`, `{"content":[` + fromOuter + `],"x":1e2}`},
		{"a tool, to old readers", wire.MethodToolsCall, `{"content":[` + inner + `]}`, `{"content":[` + fromInner + `]}`},
		{"a task", wire.MethodTasksResult, `{"content":[` + inner + `]}`, `{"content":[` + fromInner + `]}`},
		{"a prompt", wire.MethodPromptsGet, `{"messages":[{"role":"user","content":` + inner + `}]}`, `{"messages":[{"role":"user","content":` + fromInner + `}]}`},
		{"sampling", wire.MethodSample, `{"messages":[{"role":"user","content":` + outer + `}]}`, `{"messages":[{"role":"user","content":` + fromOuter + `}]}`},
		{"sampling with many blocks", wire.MethodSample, `{"messages":[{"content":[` + outer + `,` + inner + `]}]}`, `{"messages":[{"content":[` + fromOuter + `,` + fromInner + `]}]}`},
		{"the result of a tool in sampling", wire.MethodSample, `{"messages":[` + tool + `]}`, `{"messages":[` + toolAfter + `]}`},
		{"no such block in results of tools", wire.MethodToolsCall, `{"content":[{"type":"tool_result","content":[` + inner + `]}]}`, ``},
		{"both differ", wire.MethodToolsCall, `{"content":[` + differ + `]}`, ``},
		{"none", wire.MethodToolsCall, `{"content":[` + neither + `]}`, ``},
		{"a link", wire.MethodToolsCall, `{"content":[` + link + `]}`, ``},
		{"what is none", wire.MethodToolsCall, `{"content":[` + odd + `]}`, ``},
		{"arrays in arrays", wire.MethodToolsCall, `{"content":[[` + inner + `]]}`, ``},
		{"structured content is the tool's own", wire.MethodToolsCall, `{"structuredContent":` + inner + `}`, ``},
		{"reading", wire.MethodResourcesRead, `{"content":[` + inner + `],"messages":[{"content":` + inner + `}]}`, ``},
		{"spelled with escapes", wire.MethodToolsCall, `{"content":[{"typ\u0065":"r\u0065source","annot\u0061tions":{},"resource":{}}]}`, `{"content":[{"typ\u0065":"r\u0065source","annot\u0061tions":{},"resource":{"annotations":{}}}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			apply := RequestAnnotations
			if tc.method != wire.MethodSample {
				apply = func(method string, result wire.Raw) wire.Raw { return Annotations(method, wire.ValueOf(result)) }
			}
			want := tc.want
			if want == "" {
				want = tc.in
			}
			got := apply(tc.method, wire.Raw(tc.in))
			if string(got) != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if again := apply(tc.method, got); &again[0] != &got[0] {
				t.Errorf("not settled: %s", again)
			}
		})
	}
	if got := RequestAnnotations(wire.MethodElicit, wire.Raw(`{"messages":[{"content":`+inner+`}]}`)); len(got) != len(`{"messages":[{"content":`+inner+`}]}`) {
		t.Errorf("another question was changed: %s", got)
	}
}

// BenchmarkAnnotations measures results without embedded resources.
func BenchmarkAnnotations(b *testing.B) {
	for name, text := range map[string]string{"text": "lorem ipsum dolor ", "escapes": `lorem \u00edpsum dolor `} {
		body := wire.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat(text, 57) + `"}]}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				Annotations(wire.MethodToolsCall, wire.ValueOf(body))
			}
		})
	}
}
