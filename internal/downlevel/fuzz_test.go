package downlevel

import (
	"bytes"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// FuzzDownlevel checks that documents stay valid, that a second pass changes nothing,
// that documents without replacements are the same slice, and that nothing remains that a
// client of the revision would refuse.
func FuzzDownlevel(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"audio","data":"AA==","mimeType":"a/b"},{"type":"resource_link","name":"\ud83d","uri":"a:b","size":1}],"structuredContent":[1]}`,
		`{"messages":[{"role":"user","content":{"type":"resource_link"}},{"content":{"\u0074ype":"audio"}}]}`,
		`{"structuredContent":"\ud83d","structuredContent":null,"content":[{"type":"text","text":"null"}],"content":7}`,
		`{"name":"a","outputSchema":{"type":"object","properties":{"a":true}},"inputSchema":{"properties":{"a":false}},"execution":{"taskSupport":"required"}}`,
		`{"outputSchema":1,"outputSchema":{"type":"object","properties":{"b":true}},"x":{}}`,
		`[]`, `7`, ` {"content":[ ] } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if wire.Check(in, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		for _, rev := range revisions {
			for _, method := range []string{wire.MethodToolsCall, wire.MethodPromptsGet} {
				hold(t, in, func(doc wire.Raw) (wire.Raw, Counts) { return Result(rev, method, wire.ValueOf(doc)) })
			}
			item := hold(t, in, func(doc wire.Raw) (wire.Raw, Counts) { return Item(ItemClassOf(rev), call.Tool, doc) })
			result := hold(t, in, func(doc wire.Raw) (wire.Raw, Counts) { return Result(rev, wire.MethodToolsCall, wire.ValueOf(doc)) })
			for m := range wire.ValueOf(item).Members() {
				if m.Is("outputSchema") && rev < wire.Rev20260728 && !m.Value.Get("type").IsString("object") {
					t.Errorf("%s: %s", rev, item)
				}
			}
			for m := range wire.ValueOf(result).Members() {
				if m.Is("structuredContent") && rev < wire.Rev20260728 && m.Value.Kind() != '{' {
					t.Errorf("%s: %s", rev, result)
				}
				if !m.Is("content") {
					continue
				}
				for el := range m.Value.Elements() {
					kind := el.Get("type")
					if rev < wire.Rev20250326 && kind.IsString("audio") || rev < wire.Rev20250618 && kind.IsString("resource_link") {
						t.Errorf("%s: %s", rev, result)
					}
				}
			}
		}
	})
}

// hold checks the properties of every step and returns its result.
func hold(t *testing.T, in wire.Raw, step func(wire.Raw) (wire.Raw, Counts)) wire.Raw {
	t.Helper()
	kept := bytes.Clone(in)
	out, counts := step(in)
	if !bytes.Equal(in, kept) {
		t.Fatalf("the document itself was changed:\n%s\n%s", kept, in)
	}
	if err := wire.Check(out, wire.Limits{}, wire.Lenient); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, in, out)
	}
	if (counts == Counts{}) != (&out[0] == &in[0]) {
		t.Fatalf("counted %v:\n%s\n%s", counts, in, out)
	}
	if again, more := step(out); more != (Counts{}) || &again[0] != &out[0] {
		t.Fatalf("the second time counts %v:\n%s\n%s", more, out, again)
	}
	return out
}
