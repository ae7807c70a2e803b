package enrich

import (
	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// Annotations copies the annotations of embedded resources in the result of a tool or a
// prompt from the block to the resource in it, where SEP-2093 has them ("Remove
// EmbeddedResource.annotations"), or back to the block, where older readers look for
// them. Annotations in both places stay as they are.
//
// Most results have none. The text of long strings, which result may know, is not searched.
func Annotations(method string, result wire.Value) wire.Raw {
	switch wire.MethodOf(method).Shape {
	case wire.ShapeToolResult:
		return copyAnnotations(result, "content")
	case wire.ShapePrompt:
		return copyAnnotations(result, "messages")
	default:
		return result.Raw()
	}
}

// RequestAnnotations does the same for the messages in the params of a sampling request.
func RequestAnnotations(method string, params wire.Raw) wire.Raw {
	if wire.MethodOf(method).Shape != wire.ShapeSampling {
		return params
	}
	return copyAnnotations(wire.ValueOf(params), "messages")
}

func copyAnnotations(v wire.Value, member string) wire.Raw {
	doc := v.Raw()
	if !v.MayContain("annotations") {
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

// annotate copies the annotations of one block, or of an array of blocks. If results is
// set, it also goes into tool results, which only messages contain.
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
