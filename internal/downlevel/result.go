package downlevel

import (
	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// Result returns the result of a method for a client of revision rev, and counts the
// replacements. Names and URIs in the result must be public, since a resource link that
// becomes text contains its URI.
func Result(rev wire.Revision, method string, v wire.Value) (wire.Raw, Counts) {
	result := v.Doc()
	if rev.AtLeast(wire.Rev20260728) {
		return result, Counts{}
	}
	switch wire.MethodOf(method).Shape {
	case wire.ShapeToolResult:
		replaced, counts := replaceContent(rev, result)
		if !v.MayContain("Content") {
			return replaced, counts
		}
		result, odd := removeStructured(replaced)
		counts.Add(odd)
		return result, counts
	case wire.ShapePrompt:
		return replaceMessages(rev, result)
	default:
		return result, Counts{}
	}
}

// replaceContent replaces blocks in the result of a tool.
func replaceContent(rev wire.Revision, result wire.Raw) (wire.Raw, Counts) {
	b := newBlockEditor(rev, result)
	if !b.any() {
		return result, Counts{}
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

// replaceMessages replaces blocks in a prompt.
func replaceMessages(rev wire.Revision, result wire.Raw) (wire.Raw, Counts) {
	b := newBlockEditor(rev, result)
	if !b.any() {
		return result, Counts{}
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

// removeStructured removes structuredContent that is not an object. A text block keeps
// its JSON: the one that servers should send beside it (2026-07-28, server/tools,
// "Structured Content"), or an added one.
func removeStructured(result wire.Raw) (wire.Raw, Counts) {
	root := wire.ValueOf(result)
	var odd wire.Value
	for m := range root.Members() {
		if m.Is("structuredContent") && m.Value.Kind() != '{' {
			odd = m.Value
		}
	}
	if !odd.Exists() {
		return result, Counts{}
	}
	blocks := root.Get("content")
	if (blocks.Kind() == '[' || !blocks.Exists()) && !content.HasTextOf(blocks, odd) {
		result = wire.SetMember(result, "content", content.AppendElement(blocks, content.TextBlock(string(odd.Raw()))))
	}
	e := wire.NewEdit(result)
	e.Remove(e.Root(), "structuredContent")
	return e.Bytes(), Counts{StructuredContent: 1}
}
