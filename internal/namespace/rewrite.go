package namespace

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Asked is the resource that a call named. The zero Asked stands for a call without one.
type Asked struct {
	Native string
	Public string // as the client wrote it
}

// Result rewrites the result of a call, a whole document, for the client: references to resources, also in the
// input requests of an input_required result. The resource of the call keeps the URI that
// the client used.
func (s *Naming) Result(method string, v wire.Value, asked Asked) wire.Raw {
	result := v.Doc()
	if s.keeps() && asked.Native == asked.Public {
		return result
	}
	r := rewriter{naming: s, asked: asked}
	switch shape := wire.MethodOf(method).Shape; shape {
	case wire.ShapeToolResult, wire.ShapePrompt:
		if !mayRefer(v) {
			return result
		}
		for m := range v.Members() {
			switch {
			case m.Is("content") && shape == wire.ShapeToolResult:
				r.blocks(result, m.Value)
			case m.Is("messages") && shape == wire.ShapePrompt:
				r.messages(result, m.Value)
			case m.Is("inputRequests"):
				r.inputRequests(result, m.Value)
			}
		}
	case wire.ShapeContents, wire.ShapeResources:
		for m := range v.Members() {
			switch {
			case m.Is("contents"), m.Is("resources"):
				for el := range m.Value.Elements() {
					r.uris(result, el, "uri")
				}
			case m.Is("resource"):
				r.uris(result, m.Value, "uri")
			case m.Is("inputRequests"):
				r.inputRequests(result, m.Value)
			}
		}
	}
	return r.bytes(result)
}

// AskParams rewrites the params of a request of an upstream to the client.
func (s *Naming) AskParams(method string, params wire.Raw) wire.Raw {
	if method != wire.MethodSample || s.keeps() || !mayRefer(wire.ValueOf(params)) {
		return params
	}
	r := rewriter{naming: s}
	r.sampling(params, wire.ValueOf(params))
	return r.bytes(params)
}

// NoteParams rewrites the params of an upstream's notification.
func (s *Naming) NoteParams(method string, params wire.Raw) wire.Raw {
	if method != wire.NoteResourceUpdated || s.keeps() {
		return params
	}
	r := rewriter{naming: s}
	r.uris(params, wire.ValueOf(params), "uri")
	return r.bytes(params)
}

// Error rewrites data.uri in an upstream's error, the URI of a resource that was not found.
// It does not change its argument.
func (s *Naming) Error(e *wire.Error, asked Asked) *wire.Error {
	if e.Data == nil || s.keeps() && asked.Native == asked.Public {
		return e
	}
	r := rewriter{naming: s, asked: asked}
	r.uris(e.Data, wire.ValueOf(e.Data), "uri")
	if r.edit == nil {
		return e
	}
	c := *e
	c.Data = r.edit.Bytes()
	if e.Raw != nil {
		raw := wire.NewEdit(e.Raw)
		for m := range raw.Root().Members() {
			if m.Is("data") {
				again := rewriter{naming: s, asked: asked}
				again.uris(m.Value.Raw(), wire.ValueOf(m.Value.Raw()), "uri")
				raw.Replace(m.Value, again.bytes(m.Value.Raw()))
			}
		}
		c.Raw = raw.Bytes()
	}
	return &c
}

// keeps reports whether the naming leaves every URI unchanged.
func (s *Naming) keeps() bool { return s.prefix == "" && s.renamed == nil }

// mayRefer reports whether a document may contain a block that refers to a resource. The
// type of such a block is "resource" or "resource_link", plain or with \u escapes. Most
// results contain none and need no further parsing.
func mayRefer(v wire.Value) bool { return v.MayContain("resource") }

// rewriter collects the changes to one document. It makes the edit at the first change, so
// an unchanged document costs nothing.
type rewriter struct {
	naming *Naming
	asked  Asked
	edit   *wire.Edit
}

func (r *rewriter) bytes(doc wire.Raw) wire.Raw {
	if r.edit == nil {
		return doc
	}
	return r.edit.Bytes()
}

func (r *rewriter) replace(doc wire.Raw, at wire.Value, with string) {
	if r.edit == nil {
		r.edit = wire.NewEdit(doc)
	}
	r.edit.ReplaceString(at, with)
}

// uris rewrites every string member of obj with this name.
func (r *rewriter) uris(doc wire.Raw, obj wire.Value, name string) {
	for m := range obj.Members() {
		if m.Is(name) {
			r.uri(doc, m.Value)
		}
	}
}

func (r *rewriter) uri(doc wire.Raw, at wire.Value) {
	native, ok := at.Text()
	if !ok {
		return
	}
	public := r.asked.Public
	if native != r.asked.Native || public == "" {
		public = r.naming.PublicURI(native)
	}
	if public != native {
		r.replace(doc, at, public)
	}
}

// blocks rewrites content blocks: an array, or a single block as in prompts and sampling.
func (r *rewriter) blocks(doc wire.Raw, v wire.Value) {
	if v.Kind() == '[' {
		for el := range v.Elements() {
			r.block(doc, el)
		}
		return
	}
	r.block(doc, v)
}

func (r *rewriter) block(doc wire.Raw, v wire.Value) {
	var embedded, link, result bool
	for m := range v.Members() {
		if m.Is("type") {
			embedded = embedded || m.Value.IsString("resource")
			link = link || m.Value.IsString("resource_link")
			result = result || m.Value.IsString("tool_result")
		}
	}
	if !embedded && !link && !result {
		return
	}
	for m := range v.Members() {
		switch {
		case embedded && m.Is("resource"):
			r.uris(doc, m.Value, "uri")
		case link && m.Is("uri"):
			r.uri(doc, m.Value)
		case result && m.Is("content"):
			for el := range m.Value.Elements() {
				r.blockInToolResult(doc, el)
			}
		}
	}
}

// blockInToolResult rewrites a block in a tool result in a sampling message. Such blocks
// contain no further results, so a hostile one cannot make the recursion deeper.
func (r *rewriter) blockInToolResult(doc wire.Raw, v wire.Value) {
	for m := range v.Members() {
		if m.Is("type") && m.Value.IsString("tool_result") {
			return
		}
	}
	r.block(doc, v)
}

// messages rewrites the messages of a prompt or of a sampling request.
func (r *rewriter) messages(doc wire.Raw, v wire.Value) {
	for el := range v.Elements() {
		for m := range el.Members() {
			if m.Is("content") {
				r.blocks(doc, m.Value)
			}
		}
	}
}

func (r *rewriter) sampling(doc wire.Raw, params wire.Value) {
	for m := range params.Members() {
		if m.Is("messages") {
			r.messages(doc, m.Value)
		}
	}
}

// inputRequests rewrites the requests of an input_required result (2026-07-28,
// basic/patterns/mrtr).
func (r *rewriter) inputRequests(doc wire.Raw, requests wire.Value) {
	for m := range requests.Members() {
		if !m.Value.Get("method").IsString(wire.MethodSample) {
			continue
		}
		for p := range m.Value.Members() {
			if p.Is("params") {
				r.sampling(doc, p.Value)
			}
		}
	}
}

// Item rewrites one item of an upstream's list: its name, uri or uriTemplate, and the
// references to resources in a tool's _meta (MCP Apps). With mark, _meta gets the native
// name. The item must have the name member, a string.
func (s *Naming) Item(kind call.Kind, raw wire.Raw, public string, mark bool) wire.Raw {
	r := rewriter{naming: s}
	root := wire.ValueOf(raw)
	var native string
	var meta wire.Value
	for m := range root.Members() {
		switch {
		case m.Is(NameMember(kind)):
			if text, ok := m.Value.Text(); ok {
				native = text
				if text != public {
					r.replace(raw, m.Value, public)
				}
			}
		case m.Is("_meta"):
			meta = m.Value
			if kind == call.Tool {
				r.toolMeta(raw, m.Value)
			}
		}
	}
	if mark {
		if r.edit == nil {
			r.edit = wire.NewEdit(raw)
		}
		markNative(r.edit, root, meta, native)
	}
	return r.bytes(raw)
}

// markNative adds the native name of an item to its _meta.
func markNative(e *wire.Edit, item, meta wire.Value, native string) {
	switch value := wire.String(native); {
	case meta.Kind() == '{':
		e.Set(meta, MetaNative, value)
	case !meta.Exists():
		e.Add(item, "_meta", wire.SetMember(wire.Raw("{}"), MetaNative, value))
	}
}

// Rename returns a published tool or prompt under another public name. With mark, _meta gets the
// native name. Other bytes stay.
func Rename(item wire.Raw, public, native string, mark bool) wire.Raw {
	e := wire.NewEdit(item)
	var meta wire.Value
	for m := range e.Root().Members() {
		switch {
		case m.Is("name"):
			e.ReplaceString(m.Value, public)
		case m.Is("_meta"):
			meta = m.Value
		}
	}
	if mark {
		markNative(e, e.Root(), meta, native)
	}
	return e.Bytes()
}

// NameMember returns the member with the name of a list item.
func NameMember(kind call.Kind) string {
	switch kind {
	case call.Resource:
		return "uri"
	case call.Template:
		return "uriTemplate"
	default:
		return "name"
	}
}

func (r *rewriter) toolMeta(doc wire.Raw, meta wire.Value) {
	for m := range meta.Members() {
		switch {
		case m.Is("ui"):
			r.uris(doc, m.Value, "resourceUri")
		case m.Is("ui/resourceUri"), m.Is("openai/outputTemplate"):
			r.uri(doc, m.Value)
		}
	}
}
