package sanitize

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Classes says what is counts out of text that models read. The zero Classes
// takes nothing out and costs nothing.
type Classes uint8

// What can be counts out.
const (
	ANSI      Classes = 1 << iota // terminal escapes: CSI, OSC and the like, with what belongs to them
	Control                       // control characters but line feed and tab
	Invisible                     // characters that nobody sees: tags, bidirectional overrides, zero width
)

// Counts says how many things were counts out, in the order ansi, control,
// invisible.
type Counts [3]int

// ClassNames are the names of what Counts counts, as metrics label them.
var ClassNames = [3]string{"ansi", "control", "invisible"}

// Add counts what u counts too.
func (t *Counts) Add(u Counts) {
	for i, n := range u {
		t[i] += n
	}
}

// Text returns a text without what is to be counts out.
func (s Classes) Text(text string) (string, Counts) {
	if s == 0 {
		return text, Counts{}
	}
	raw := wire.String(text)
	c := cleaner{s: s}
	clean := c.inside(raw[1 : len(raw)-1])
	if clean == nil {
		return text, c.counts
	}
	return wire.ValueOf(append(append(wire.Raw{'"'}, clean...), '"')).Str(), c.counts
}

// Result returns the result of a request, valid JSON, with clean text: that of
// text blocks, of resources, embedded or read, of messages, and the names and
// descriptions beside it. Structured content is data, and stays. The members of
// results of different methods do not meet.
func (s Classes) Result(result wire.Raw) (wire.Raw, Counts) {
	if s == 0 || !maySoil(result) {
		return result, Counts{}
	}
	c := newCleaner(s, result)
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
		case m.Is("resource"): // of its metadata
			c.resource(m.Value)
		case m.Is("description"):
			c.text(m.Value)
		case m.Is("inputRequests"):
			for request := range m.Value.Members() {
				c.ask(request.Value.Get("method").Str(), request.Value.Get("params"))
			}
		case m.Is("result"): // of a task
			c.blocks(m.Value.Get("content"))
		}
	}
	return c.done(result)
}

// Item returns a list item, valid JSON, with clean titles and descriptions,
// those in the schemas of a tool and of the arguments of a prompt included.
func (s Classes) Item(kind call.Kind, item wire.Raw) (wire.Raw, Counts) {
	if s == 0 || !maySoil(item) {
		return item, Counts{}
	}
	c := newCleaner(s, item)
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

// Ask returns the params of a question of an upstream with clean text: the
// message of an elicitation and what its form says, the messages of a sampling
// request.
func (s Classes) Request(method string, params wire.Raw) (wire.Raw, Counts) {
	if s == 0 || !maySoil(params) {
		return params, Counts{}
	}
	c := newCleaner(s, params)
	c.ask(method, c.edit.Root())
	return c.done(params)
}

// Error returns an error of an upstream with a clean message. The error itself
// is not changed.
func (s Classes) Error(e *wire.Error) (*wire.Error, Counts) {
	message, counts := s.Text(e.Message)
	if counts == (Counts{}) {
		return e, counts
	}
	own := *e
	own.Message = message
	if e.Raw != nil {
		c := newCleaner(s, e.Raw)
		c.all(c.edit.Root(), "message")
		own.Raw, _ = c.done(e.Raw)
	}
	return &own, counts
}

// maySoil reports whether a document can hold anything that is ever counts out:
// an escape other than that of a quote, a slash, a line feed or a tab, or a
// character whose first byte is one of theirs.
func maySoil(doc wire.Raw) bool {
	for i := 0; i < len(doc); i++ {
		switch soil[doc[i]] {
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

// soil sorts bytes: 1 begins what may be counts out, 2 is the backslash.
var soil = func() (t [256]byte) {
	for _, b := range []byte{0x7f, 0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf0, 0xf3} {
		t[b] = 1
	}
	t['\\'] = 2
	return t
}()

// cleaner takes things out of the strings of one document.
// maxDepth bounds how deep schemas are looked into.
const maxDepth = 64

type cleaner struct {
	s      Classes
	edit   *wire.Edit
	counts Counts
}

func newCleaner(s Classes, doc wire.Raw) *cleaner { return &cleaner{s: s, edit: wire.NewEdit(doc)} }

func (c *cleaner) done(doc wire.Raw) (wire.Raw, Counts) {
	if !c.edit.Changed() {
		return doc, c.counts
	}
	return c.edit.Bytes(), c.counts
}

// text cleans a string in its place.
func (c *cleaner) text(v wire.Value) {
	if v.Kind() != '"' {
		return
	}
	raw := v.Raw()
	if clean := c.inside(raw[1 : len(raw)-1]); clean != nil {
		c.edit.Replace(v, append(append(wire.Raw{'"'}, clean...), '"'))
	}
}

// all cleans the members of an object that have one of the names.
func (c *cleaner) all(obj wire.Value, names ...string) {
	for m := range obj.Members() {
		for _, name := range names {
			if m.Is(name) {
				c.text(m.Value)
			}
		}
	}
}

// blocks cleans content blocks: an array of them, a single one, or a string that
// stands for one.
func (c *cleaner) blocks(v wire.Value) {
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

func (c *cleaner) block(v wire.Value) {
	c.text(v)
	for m := range v.Members() {
		switch {
		case m.Is("text"), m.Is("title"), m.Is("description"), m.Is("name"):
			c.text(m.Value)
		case m.Is("resource"):
			c.resource(m.Value)
		case m.Is("content"): // the result of a tool in a sampling message
			for el := range m.Value.Elements() {
				c.all(el, "text", "title", "description", "name")
				c.resource(el.Get("resource"))
			}
		}
	}
}

func (c *cleaner) resource(v wire.Value) { c.all(v, "text", "title", "description", "name") }

func (c *cleaner) messages(v wire.Value) {
	for el := range v.Elements() {
		for m := range el.Members() {
			if m.Is("content") {
				c.blocks(m.Value)
			}
		}
	}
}

func (c *cleaner) ask(method string, params wire.Value) {
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

// schema cleans the titles and descriptions of a schema and those in it. A
// property of such a name has a schema for a value, no string.
func (c *cleaner) schema(v wire.Value, level int) {
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
