package conform

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"mcpgateway/internal/wire"
)

// DownTo returns the result of a request of that method as a client of revision
// rev can take it, and what was replaced in it. Names and URIs in it are public
// already: a resource link that becomes text names the URI that is in it.
func DownTo(rev wire.Revision, method string, result wire.Raw) (wire.Raw, Tally) {
	if rev.AtLeast(wire.Rev20260728) {
		return result, Tally{}
	}
	switch wire.MethodOf(method).Shape {
	case wire.ShapeToolResult:
		result, tally := content(rev, result)
		result, odd := structured(result)
		tally.Add(odd)
		return result, tally
	case wire.ShapePrompt:
		return messages(rev, result)
	default:
		return result, Tally{}
	}
}

// mayHold reports whether a document can hold a string with this part, which has
// no characters that must be escaped: it stands there plainly or is written with
// \u escapes. Most results can be passed on after this look. The rarer the first
// character of the part is in text, the faster is the search.
func mayHold(doc wire.Raw, text string) bool {
	return bytes.Contains(doc, []byte(text)) || bytes.Contains(doc, []byte(`\u`))
}

// content replaces blocks in the result of a tool.
func content(rev wire.Revision, result wire.Raw) (wire.Raw, Tally) {
	b := newBlocks(rev, result)
	if !b.any() {
		return result, Tally{}
	}
	for m := range wire.ValueOf(result).Members() {
		if m.Is("content") {
			for el := range m.Value.Elements() {
				b.replace(el)
			}
		}
	}
	return b.done()
}

// messages replaces blocks in a prompt.
func messages(rev wire.Revision, result wire.Raw) (wire.Raw, Tally) {
	b := newBlocks(rev, result)
	if !b.any() {
		return result, Tally{}
	}
	for m := range wire.ValueOf(result).Members() {
		if !m.Is("messages") {
			continue
		}
		for message := range m.Value.Elements() {
			for mm := range message.Members() {
				if mm.Is("content") {
					b.replace(mm.Value)
				}
			}
		}
	}
	return b.done()
}

// structured takes structuredContent that is no object out of the result of a
// tool. A text block says the same: one that is there, since servers should
// send one beside structuredContent (2026-07-28, server/tools, "Structured
// Content"), or one that is added.
func structured(result wire.Raw) (wire.Raw, Tally) {
	if !mayHold(result, "Content") {
		return result, Tally{}
	}
	root := wire.ValueOf(result)
	var odd wire.Value
	for m := range root.Members() {
		if m.Is("structuredContent") && m.Value.Kind() != '{' {
			odd = m.Value
		}
	}
	if !odd.Exists() {
		return result, Tally{}
	}
	blocks := root.Get("content")
	if (blocks.Kind() == '[' || !blocks.Exists()) && !says(blocks, odd) {
		text := make([]byte, 0, len(odd.Raw())+len(odd.Raw())/8+32)
		text = append(text, `{"type":"text","text":`...)
		text = wire.AppendString(text, string(odd.Raw()))
		result = wire.SetMember(result, "content", appended(blocks, append(text, '}')))
	}
	e := wire.NewEdit(result)
	e.Remove(e.Root(), "structuredContent")
	return e.Bytes(), Tally{StructuredContent: 1}
}

// says reports whether one of the blocks is a text with the JSON of v, however
// that is written; for a string, the string itself is as good.
func says(blocks, v wire.Value) bool {
	plain, isText := v.Text()
	written := string(v.Raw())
	want := canonical(written)
	for el := range blocks.Elements() {
		text, ok := el.Get("text").Text()
		if !ok || !el.Get("type").IsString("text") {
			continue
		}
		switch {
		case isText && text == plain, text == written:
			return true
		case want != nil && bytes.Equal(canonical(text), want):
			return true
		}
	}
	return false
}

// canonical returns the one form that JSON of the same meaning has (RFC 8785),
// nil for what has none.
func canonical(text string) []byte {
	v := jsontext.Value(text)
	if v.Canonicalize() != nil {
		return nil
	}
	return v
}

// appended returns the array with one more element. An absent array is an empty
// one.
func appended(array wire.Value, element wire.Raw) wire.Raw {
	out := make(wire.Raw, 0, len(array.Raw())+len(element)+2)
	if !array.Exists() {
		out = append(out, '[')
	} else {
		raw := array.Raw()
		out = append(out, raw[:len(raw)-1]...)
		for range array.Elements() {
			out = append(out, ',')
			break
		}
	}
	out = append(out, element...)
	return append(out, ']')
}
