package enrich

import (
	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// Embedded returns the result of a tool or a prompt with the annotations of
// embedded resources where readers of either form look for them: on the block, and
// on the resource in it, where SEP-2093 has them ("Remove
// EmbeddedResource.annotations"). Annotations that stand in both places stay what
// they are.
func Annotations(method string, result wire.Raw) wire.Raw {
	switch wire.MethodOf(method).Shape {
	case wire.ShapeToolResult:
		return embedded(result, "content")
	case wire.ShapePrompt:
		return embedded(result, "messages")
	default:
		return result
	}
}

// RequestAnnotations does for the messages of sampling, in the params of a question,
// what [Embedded] does for results.
func RequestAnnotations(method string, params wire.Raw) wire.Raw {
	if wire.MethodOf(method).Shape != wire.ShapeSampling {
		return params
	}
	return embedded(params, "messages")
}

func embedded(doc wire.Raw, member string) wire.Raw {
	if !content.MayContain(doc, "annotations") {
		return doc
	}
	e := editor{content.LazyEdit{Doc: doc}}
	for m := range wire.ValueOf(doc).Members() {
		switch {
		case !m.Is(member):
		case member == "content":
			e.annotate(m.Value, false)
		default:
			for message := range m.Value.Elements() {
				for mm := range message.Members() {
					if mm.Is("content") {
						e.annotate(mm.Value, true)
					}
				}
			}
		}
	}
	return e.Bytes()
}

// annotate puts the annotations of embedded resources into both places: in one
// block, or in an array of them. With results it goes into those of tools, which
// only messages hold, and no deeper.
func (e *editor) annotate(v wire.Value, results bool) {
	if v.Kind() == '[' {
		for el := range v.Elements() {
			if el.Kind() == '{' {
				e.annotate(el, results)
			}
		}
		return
	}
	var kind, resource, outer, content wire.Value
	for m := range v.Members() {
		switch {
		case m.Is("type"):
			kind = m.Value
		case m.Is("resource"):
			resource = m.Value
		case m.Is("annotations"):
			outer = m.Value
		case m.Is("content"):
			content = m.Value
		}
	}
	switch {
	case results && kind.IsString("tool_result"):
		e.annotate(content, false)
	case kind.IsString("resource"):
		inner := resource.Get("annotations")
		switch {
		case resource.Kind() != '{':
		case outer.Kind() == '{' && !inner.Exists():
			e.Begin().Add(resource, "annotations", outer.Raw())
		case inner.Kind() == '{' && !outer.Exists():
			e.Begin().Add(v, "annotations", inner.Raw())
		}
	}
}
