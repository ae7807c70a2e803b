package sanitize

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Classes is a set of classes of characters to remove from text that models read. The
// empty set removes nothing and costs nothing.
type Classes uint8

// The classes.
const (
	ANSI      Classes = 1 << iota // terminal escapes, such as CSI and OSC, with their parameters
	Control                       // control characters except line feed and tab
	Invisible                     // invisible characters: tags, bidirectional overrides, zero width characters
)

// Counts counts removals by class, in the order of ClassNames.
type Counts [3]int

// ClassNames are the labels of the classes in metrics.
var ClassNames = [3]string{"ansi", "control", "invisible"}

// Add adds other counts.
func (t *Counts) Add(u Counts) {
	for i, n := range u {
		t[i] += n
	}
}

// Text sanitizes a text.
func (s Classes) Text(text string) (string, Counts) {
	if s == 0 {
		return text, Counts{}
	}
	raw := wire.String(text)
	c := sanitizer{s: s}
	clean := c.inside(raw[1 : len(raw)-1])
	if clean == nil {
		return text, c.counts
	}
	return wire.ValueOf(append(append(wire.Raw{'"'}, clean...), '"')).Str(), c.counts
}

// Result sanitizes the result of a request, valid JSON: text blocks, the text of embedded
// and read resources, messages, and their names and descriptions. Structured content is
// data, and stays as it is. The method is not needed, since results of different methods
// have different members.
func (s Classes) Result(result wire.Raw) (wire.Raw, Counts) {
	if s == 0 || !mayNeedRemoval(result) {
		return result, Counts{}
	}
	c := newSanitizer(s, result)
	for m := range c.edit.Root().Members() {
		switch {
		case m.Is("content"):
			c.blocks(m.Value)
		case m.Is("messages"):
			c.messages(m.Value)
		case m.Is("contents"):
			for el := range m.Value.Elements() {
				c.resource(el)
			}
		case m.Is("resource"): // of resources/metadata
			c.resource(m.Value)
		case m.Is("description"):
			c.text(m.Value)
		case m.Is("inputRequests"):
			for request := range m.Value.Members() {
				c.requestParams(request.Value.Get("method").Str(), request.Value.Get("params"))
			}
		case m.Is("result"): // the result of a task
			c.blocks(m.Value.Get("content"))
		}
	}
	return c.done(result)
}

// Item sanitizes the titles and descriptions of a list item, valid JSON, including those
// in the schemas of a tool and in the arguments of a prompt.
func (s Classes) Item(kind call.Kind, item wire.Raw) (wire.Raw, Counts) {
	if s == 0 || !mayNeedRemoval(item) {
		return item, Counts{}
	}
	c := newSanitizer(s, item)
	for m := range c.edit.Root().Members() {
		switch {
		case m.Is("title"), m.Is("description"), m.Is("name") && kind != call.Tool && kind != call.Prompt:
			c.text(m.Value)
		case m.Is("annotations"):
			c.all(m.Value, "title")
		case m.Is("inputSchema"), m.Is("outputSchema"):
			c.schema(m.Value, 0)
		case m.Is("arguments"):
			for el := range m.Value.Elements() {
				c.all(el, "title", "description")
			}
		}
	}
	return c.done(item)
}

// Request sanitizes the params of a request of an upstream to the client: the message and
// the form of an elicitation, the messages of a sampling request.
func (s Classes) Request(method string, params wire.Raw) (wire.Raw, Counts) {
	if s == 0 || !mayNeedRemoval(params) {
		return params, Counts{}
	}
	c := newSanitizer(s, params)
	c.requestParams(method, c.edit.Root())
	return c.done(params)
}

// Error returns an error of an upstream with a sanitized message. It does not change the
// error itself.
func (s Classes) Error(e *wire.Error) (*wire.Error, Counts) {
	message, counts := s.Text(e.Message)
	if counts == (Counts{}) {
		return e, counts
	}
	own := *e
	own.Message = message
	if e.Raw != nil {
		c := newSanitizer(s, e.Raw)
		c.all(c.edit.Root(), "message")
		own.Raw, _ = c.done(e.Raw)
	}
	return &own, counts
}

// mayNeedRemoval reports whether a document may contain something to remove: an escape other
// than that of a quote, a slash, a line feed or a tab, or a byte that begins such a
// character.
func mayNeedRemoval(doc wire.Raw) bool {
	for i := 0; i < len(doc); i++ {
		switch byteClass[doc[i]] {
		case 0:
		case 1:
			return true
		case 2:
			i++
			switch doc[i] {
			case 'u', 'b', 'f', 'r':
				return true
			}
		}
	}
	return false
}

// byteClass classifies bytes: 1 may begin a character to remove, 2 is the backslash.
var byteClass = func() (t [256]byte) {
	for _, b := range []byte{0x7f, 0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf0, 0xf3} {
		t[b] = 1
	}
	t['\\'] = 2
	return t
}()

// maxDepth bounds the depth to which schemas are sanitized.
const maxDepth = 64

// sanitizer sanitizes the strings of one document.
type sanitizer struct {
	s      Classes
	edit   *wire.Edit
	counts Counts
}

func newSanitizer(s Classes, doc wire.Raw) *sanitizer {
	return &sanitizer{s: s, edit: wire.NewEdit(doc)}
}

func (c *sanitizer) done(doc wire.Raw) (wire.Raw, Counts) {
	if !c.edit.Changed() {
		return doc, c.counts
	}
	return c.edit.Bytes(), c.counts
}

// text sanitizes a string in place.
func (c *sanitizer) text(v wire.Value) {
	if v.Kind() != '"' {
		return
	}
	raw := v.Raw()
	if clean := c.inside(raw[1 : len(raw)-1]); clean != nil {
		c.edit.Replace(v, append(append(wire.Raw{'"'}, clean...), '"'))
	}
}

// all sanitizes the members with these names.
func (c *sanitizer) all(obj wire.Value, names ...string) {
	for m := range obj.Members() {
		for _, name := range names {
			if m.Is(name) {
				c.text(m.Value)
			}
		}
	}
}

// blocks sanitizes content blocks: an array, a single block, or a string in place of a
// block.
func (c *sanitizer) blocks(v wire.Value) {
	switch v.Kind() {
	case '"':
		c.text(v)
	case '[':
		for el := range v.Elements() {
			c.block(el)
		}
	default:
		c.block(v)
	}
}

func (c *sanitizer) block(v wire.Value) {
	c.text(v)
	for m := range v.Members() {
		switch {
		case m.Is("text"), m.Is("title"), m.Is("description"), m.Is("name"):
			c.text(m.Value)
		case m.Is("resource"):
			c.resource(m.Value)
		case m.Is("content"): // a tool result in a sampling message
			for el := range m.Value.Elements() {
				c.all(el, "text", "title", "description", "name")
				c.resource(el.Get("resource"))
			}
		}
	}
}

func (c *sanitizer) resource(v wire.Value) { c.all(v, "text", "title", "description", "name") }

func (c *sanitizer) messages(v wire.Value) {
	for el := range v.Elements() {
		for m := range el.Members() {
			if m.Is("content") {
				c.blocks(m.Value)
			}
		}
	}
}

func (c *sanitizer) requestParams(method string, params wire.Value) {
	shape := wire.MethodOf(method).Shape
	for m := range params.Members() {
		switch shape {
		case wire.ShapeElicitation:
			if m.Is("message") {
				c.text(m.Value)
			}
			if m.Is("requestedSchema") {
				c.schema(m.Value, 0)
			}
		case wire.ShapeSampling:
			if m.Is("systemPrompt") {
				c.text(m.Value)
			}
			if m.Is("messages") {
				c.messages(m.Value)
			}
		}
	}
}

// schema sanitizes the titles and descriptions of a schema and its subschemas. A property
// named title or description has a schema as its value, not a string.
func (c *sanitizer) schema(v wire.Value, level int) {
	if level > maxDepth {
		return
	}
	for m := range v.Members() {
		switch m.Value.Kind() {
		case '"':
			if m.Is("title") || m.Is("description") {
				c.text(m.Value)
			}
		case '{':
			c.schema(m.Value, level+1)
		case '[':
			for el := range m.Value.Elements() {
				c.schema(el, level+1)
			}
		}
	}
}
