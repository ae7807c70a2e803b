package difference

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// marked writes segments as text, with what differs in brackets.
func marked(segments []Segment) string {
	var b strings.Builder
	for _, s := range segments {
		if s.Marked {
			b.WriteString("[" + s.Text + "]")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// Definitions are compared member by member, and texts word by word.
func TestCompare(t *testing.T) {
	for _, tt := range []struct{ name, was, now, want string }{
		{"a word of the description", `{"name":"a","description":"Reads a file."}`, `{"name":"a","description":"Reads any file."}`, "changed description: Reads [a] file. | Reads [any] file."},
		{"words before and after", `{"d":"b c"}`, `{"d":"a b c d"}`, "changed d: b c | [a ]b c[ d]"},
		{"a property", `{"inputSchema":{"properties":{"p":{"type":"string"}}}}`, `{"inputSchema":{"properties":{"p":{"type":"string"},"q":{"type":"number","description":"new"}}}}`,
			"added inputSchema.properties.q.type:  | [number]\nadded inputSchema.properties.q.description:  | [new]"},
		{"a member that is gone", `{"a":{"x":1,"y":2}}`, `{"a":{"y":2}}`, "removed a.x: [1] | "},
		{"an annotation", `{"annotations":{"readOnlyHint":true}}`, `{"annotations":{"readOnlyHint":false}}`, "changed annotations.readOnlyHint: [true] | [false]"},
		{"a number that becomes text", `{"a":1}`, `{"a":"1"}`, "changed a: 1 | 1"},
		{"a list", `{"required":["a","b"]}`, `{"required":["a","c"]}`, `changed required: ["a","[b]"] | ["a","[c]"]`},
		{"an object that becomes empty", `{"a":{"x":1}}`, `{"a":{}}`, "added a:  | [{}]\nremoved a.x: [1] | "},
		{"a second member of the same name", `{"d":"a"}`, `{"d":"a","d":"evil"}`, "added d (again):  | [evil]"},
		{"a name with an escape", `{"d":"a"}`, `{"\u0064":"b"}`, "changed d: [a] | [b]"},
		{"only the spelling", `{"d":"a"}`, `{"d":"\u0061"}`, `changed : {"d":"[a]"} | {"d":"[\u0061]"}`},
		{"only spaces", `{"d":"a b"}`, `{"d":"a  b"}`, "changed d: a[ ]b | a[  ]b"},
		{"nothing known before", ``, `{"name":"a"}`, "added name:  | [a]"},
	} {
		changes, _ := Compare(wire.Raw(tt.was), wire.Raw(tt.now))
		var lines []string
		for _, c := range changes {
			lines = append(lines, fmt.Sprintf("%s %s: %s | %s", c.Kind, strings.Join(c.Path, "."), marked(c.Was), marked(c.Now)))
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// The work for a hostile definition is bounded, and no change is left out.
func TestCompareIsBounded(t *testing.T) {
	deep := func(leaf string) wire.Raw {
		return wire.Raw(`{"inputSchema":` + strings.Repeat(`{"a":`, 500) + leaf + strings.Repeat("}", 500) + "}")
	}
	if changes, _ := Compare(deep("1"), deep("2")); len(changes) != 1 || len(changes[0].Path) != maxLeafDepth {
		t.Errorf("deep: %d changes", len(changes))
	}
	wide := func(last string) wire.Raw {
		b := []byte("{")
		for i := range 5 * maxLeaves {
			b = fmt.Appendf(b, `"%d":{"x":1},`, i)
		}
		return append(b, `"last":`+last+"}"...)
	}
	if changes, same := Compare(wide("1"), wide("2")); len(changes) != 1 || same != 5*maxLeaves {
		t.Errorf("wide: %d changes, %d the same", len(changes), same)
	}
	a, b := strings.Repeat("a b ", 20000), strings.Repeat("c d ", 20000)
	if x, y := compareTexts(a, b); marked(x) != "["+strings.TrimSuffix(a, " ")+"] " || marked(y) != "["+strings.TrimSuffix(b, " ")+"] " {
		t.Error("long texts are cut")
	}
}

// FuzzCompare shows that a comparison loses no text.
func FuzzCompare(f *testing.F) {
	f.Add("a b c", "a c")
	f.Add("", "\xff\u202e x")
	f.Fuzz(func(t *testing.T, was, now string) {
		x, y := compareTexts(was, now)
		plain := func(segments []Segment) (all, common string) {
			for _, s := range segments {
				all += s.Text
				if !s.Marked {
					common += s.Text
				}
			}
			return all, common
		}
		allX, commonX := plain(x)
		allY, commonY := plain(y)
		if allX != was || allY != now || commonX != commonY {
			t.Errorf("%q and %q: %v, %v", was, now, x, y)
		}
	})
}
