package enrich

import (
	"bytes"
	"testing"

	"mcpgateway/internal/wire"
)

// FuzzEnrich checks that documents stay valid and keep all their bytes, and that a second
// pass changes nothing.
func FuzzEnrich(f *testing.F) {
	for _, seed := range []string{
		`{"contents":[{"uri":"x+a:full","text":"\ud83d\u00e9\n"},{"uri":"x+a:bare","blob":"AA\/="},{}]}`,
		`{"contents":[{"uri":"x+a:full","uri":7,"n\u0061me":"","size":null}],"contents":{"uri":"x+a:full"}}`,
		`{"content":[{"type":"resource","resource":{},"annotations":{}},{"type":"resource","annotations":{},"resource":{"annotations":1}}]}`,
		`{"messages":[{"content":{"type":"tool_result","content":[{"type":"resource","resource":{"annotations":{}}}]}}]}`,
		`{"mimeType":"inode/directory"}`, `[]`, `7`, ` {"contents":[ ] } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if wire.Check(in, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		in = wire.ValueOf(in).Raw() // values have no space around them
		for _, step := range []func(wire.Raw) wire.Raw{
			func(doc wire.Raw) wire.Raw { return ReadResult(doc, describeListed) },
			func(doc wire.Raw) wire.Raw { return Annotations(wire.MethodToolsCall, wire.ValueOf(doc)) },
			func(doc wire.Raw) wire.Raw { return RequestAnnotations(wire.MethodSample, doc) },
			ListItem,
		} {
			kept := bytes.Clone(in)
			out := step(in)
			if !bytes.Equal(in, kept) {
				t.Fatalf("the document itself was changed:\n%s\n%s", kept, in)
			}
			if err := wire.Check(out, wire.Limits{}, wire.Lenient); err != nil {
				t.Fatalf("%v:\n%s\n%s", err, in, out)
			}
			if again := step(out); !bytes.Equal(again, out) {
				t.Fatalf("not settled:\n%s\n%s\n%s", in, out, again)
			}
			rest := out // the bytes of the input, in order
			for i := range in {
				at := bytes.IndexByte(rest, in[i])
				if at < 0 {
					t.Fatalf("something is gone:\n%s\n%s", in, out)
				}
				rest = rest[at+1:]
			}
		}
	})
}
