package bridge

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// AdaptQuestion returns the params of a question in the form that the client's revision
// knows, and whether there is such a form. Without one the question counts as
// one that the client did not declare to answer.
//
//	before       the revisions have
//	2025-03-26   no audio in a sampling message
//	2025-06-18   no elicitation
//	2025-11-25   no URL mode and no choice of several; the titles of choices in
//	             enumNames; one block in a sampling message, and no tools
func AdaptQuestion(c *call.Client, method string, params wire.Raw) (wire.Raw, bool) {
	if fit := asks[method].fit; fit != nil && !c.Revision.AtLeast(wire.Rev20251125) {
		return fit(c.Revision, params)
	}
	return params, true
}

func fitElicitation(rev wire.Revision, params wire.Raw) (wire.Raw, bool) {
	if !rev.AtLeast(wire.Rev20250618) || wire.ValueOf(params).Get("mode").IsString("url") {
		return nil, false
	}
	return fitForm(params)
}

// fitForm turns titled choices into the older form, and removes the mode, because there was only
// one.
func fitForm(params wire.Raw) (wire.Raw, bool) {
	e := wire.NewEdit(params)
	for p := range e.Root().Get("requestedSchema", "properties").Members() {
		if p.Value.Get("type").IsString("array") {
			return nil, false
		}
		choices := p.Value.Get("oneOf")
		if !choices.Exists() {
			continue
		}
		values, titles := []byte{'['}, []byte{'['}
		for choice := range choices.Elements() {
			value, title := choice.Get("const"), choice.Get("title")
			if value.Kind() != '"' || title.Kind() != '"' {
				return nil, false
			}
			if len(values) > 1 {
				values, titles = append(values, ','), append(titles, ',')
			}
			values, titles = append(values, value.Raw()...), append(titles, title.Raw()...)
		}
		property := wire.NewEdit(p.Value.Raw())
		property.Remove(property.Root(), "oneOf")
		older := wire.SetMember(property.Bytes(), "enum", append(values, ']'))
		e.Replace(p.Value, wire.SetMember(older, "enumNames", append(titles, ']')))
	}
	e.Remove(e.Root(), "mode")
	return e.Bytes(), true
}

// fitSampling turns a message of several blocks into several messages.
func fitSampling(rev wire.Revision, params wire.Raw) (wire.Raw, bool) {
	if wantsTools(params) {
		return nil, false
	}
	isNewer := func(block wire.Value) bool {
		t := block.Get("type")
		return t.IsString("tool_use") || t.IsString("tool_result") || t.IsString("audio") && !rev.AtLeast(wire.Rev20250326)
	}
	e := wire.NewEdit(params)
	for m := range e.Root().Get("messages").Elements() {
		content := m.Get("content")
		if isNewer(content) {
			return nil, false
		}
		if content.Kind() != '[' {
			continue
		}
		var apart []byte
		bare := wire.SetMember(m.Raw(), "content", wire.Raw("null")) // otherwise each block would copy the whole message
		for block := range content.Elements() {
			if isNewer(block) {
				return nil, false
			}
			if apart != nil {
				apart = append(apart, ',')
			}
			apart = append(apart, wire.SetMember(bare, "content", block.Raw())...)
		}
		if apart == nil {
			return nil, false // a message without content has no older form
		}
		e.Replace(m, apart)
	}
	return e.Bytes(), true
}
