package conform

import (
	"bytes"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// Whatever an upstream sends: valid JSON stays valid, a second time changes
// nothing, what was not counted is the same slice, and nothing is left that a
// client of the revision would refuse.
func FuzzDownTo(f *testing.F) {
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
				hold(t, in, func(doc wire.Raw) (wire.Raw, Tally) { return DownTo(rev, method, doc) })
			}
			item := hold(t, in, func(doc wire.Raw) (wire.Raw, Tally) { return ItemDownTo(ItemClassOf(rev), call.Tool, doc) })
			result := hold(t, in, func(doc wire.Raw) (wire.Raw, Tally) { return DownTo(rev, wire.MethodToolsCall, doc) })
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

// hold checks what is true of every step and returns its outcome.
func hold(t *testing.T, in wire.Raw, step func(wire.Raw) (wire.Raw, Tally)) wire.Raw {
	t.Helper()
	kept := bytes.Clone(in)
	out, tally := step(in)
	if !bytes.Equal(in, kept) {
		t.Fatalf("the document itself was changed:\n%s\n%s", kept, in)
	}
	if err := wire.Check(out, wire.Limits{}, wire.Lenient); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, in, out)
	}
	if (tally == Tally{}) != (&out[0] == &in[0]) {
		t.Fatalf("counted %v:\n%s\n%s", tally, in, out)
	}
	if again, more := step(out); more != (Tally{}) || &again[0] != &out[0] {
		t.Fatalf("the second time counts %v:\n%s\n%s", more, out, again)
	}
	return out
}

// Whatever an upstream sends: what is mended is valid JSON and stays as it is, no
// other mode changes a byte of what it passes, and what warns finds what repairs.
func FuzzCheck(f *testing.F) {
	for _, file := range corpus(f) {
		f.Add([]byte(file.section("sent")))
	}
	f.Add([]byte(`{"content":[{"type":"image","data":"\/\u0041AA=","isError":true}],"isError":"x","isError":1}`))
	schema := newSchema(wire.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if wire.Check(in, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		kept := bytes.Clone(in)
		for _, method := range []string{wire.MethodToolsCall, wire.MethodPromptsGet, wire.MethodResourcesRead, wire.MethodComplete} {
			for _, output := range []*Schema{nil, schema} {
				s := Subject{Method: method, Revision: wire.Rev20251125, Output: output, Asked: namespace.Asked{Native: "a:b", Public: "a:b"}}
				warned := s.Check(in)
				if &warned.Result[0] != &in[0] || warned.Err != nil {
					t.Fatalf("%s: warn changed the result", method)
				}
				s.Mode = Strict
				if v := s.Check(in); v.Err == nil && wire.Check(v.Result, wire.Limits{}, wire.Lenient) != nil {
					t.Fatalf("%s: strict: %s", method, v.Result)
				}
				s.Mode = Repair
				v := s.Check(in)
				if !bytes.Equal(in, kept) {
					t.Fatalf("%s: the document itself was changed", method)
				}
				if len(warned.Findings) == 0 && (len(v.Findings) > 0 || &v.Result[0] != &in[0]) {
					t.Fatalf("%s: repair finds %v where warn finds nothing", method, v.Findings)
				}
				if v.Err != nil {
					continue
				}
				if err := wire.Check(v.Result, wire.Limits{}, wire.Lenient); err != nil {
					t.Fatalf("%s: %v: %s\nbecame %s", method, err, in, v.Result)
				}
				if again := s.Check(v.Result); again.Err != nil || !bytes.Equal(again.Result, v.Result) {
					t.Fatalf("%s:\n%s\nbecame\n%s\nand then\n%s %v", method, in, v.Result, again.Result, again.Err)
				}
			}
		}
		for kind := range call.Kind(call.Kinds) {
			lists := Lists{Mode: Repair, Revision: wire.Rev20251125}
			it := lists.Check(kind, in)
			if it.Unusable != "" {
				continue
			}
			again := lists.Check(kind, it.Item)
			if again.Unusable != "" || !bytes.Equal(again.Item, it.Item) {
				t.Fatalf("%s:\n%s\nbecame\n%s\nand then\n%s %s", kind, in, it.Item, again.Item, again.Unusable)
			}
		}
	})
}

// Whatever an upstream sends: what is clean is valid JSON, and clean.
func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{
		`\u001b]0;\u001b[31mx\u0007\udb40\u200b\udc49`, "\u009b31m\U000E0041\U0001F3F4\U000E0067", `\ud83d\ud83d\udc00\u202e`, `\\u001b\/\"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		doc := wire.Raw(`{"content":[{"type":"text","text":"` + in + `"}]}`)
		if wire.Check(doc, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		for _, s := range []Sanitize{ANSI, Control, Invisible, ANSI | Control | Invisible} {
			got, taken := s.Result(doc)
			if err := wire.Check(got, wire.Limits{}, wire.Lenient); err != nil {
				t.Fatalf("%v: %q", err, got)
			}
			if taken == (Taken{}) != (string(got) == string(doc)) {
				t.Fatalf("%q became %q, and %v was counted", doc, got, taken)
			}
			for _, r := range wire.ValueOf(got).Get("content").Raw() {
				if s&Control != 0 && r == 0x7f {
					t.Fatalf("%q is left in %q", r, got)
				}
			}
			for el := range wire.ValueOf(got).Get("content").Elements() {
				for _, r := range el.Get("text").Str() {
					if s&ANSI != 0 && (r == 0x1b || r == 0x9b || r == 0x9d) || s&Control != 0 && isControl(r) ||
						s&Invisible != 0 && (0x202a <= r && r <= 0x202e || r == 0xfeff) {
						t.Fatalf("%U is left of %q: %q", r, doc, got)
					}
				}
			}
		}
	})
}

// Whatever an upstream sends: what is enriched is valid JSON, keeps everything that
// was there, and a second time changes nothing.
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
		for _, step := range []func(wire.Raw) wire.Raw{
			func(doc wire.Raw) wire.Raw { return Contents(doc, describeListed) },
			func(doc wire.Raw) wire.Raw { return Embedded(wire.MethodToolsCall, doc) },
			func(doc wire.Raw) wire.Raw { return EmbeddedAsk(wire.MethodSample, doc) },
			Typed,
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
			rest := out // what was there is there, in its order
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
