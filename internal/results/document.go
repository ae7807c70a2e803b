package results

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"unicode/utf8"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// Document is the whole text of a result. It is immutable.
type Document struct {
	// Text has the texts of all parts in their order, UTF-8. Each part begins on a line of its
	// own.
	Text []byte
	// Parts are the parts of the result, at least one.
	Parts []Part
	// Items are the items of upstreams whose results went into the text, each once and in the
	// order of Compare. The document is readable for as long as its owner may use all of them.
	Items []Item
}

// Item is an item of an upstream.
type Item struct {
	Kind     wire.Item
	Upstream string
	Name     string // the public name without a profile
	Native   string // the name that the upstream gave it
}

// Compare orders items.
func (i Item) Compare(j Item) int {
	return cmp.Or(cmp.Compare(i.Kind, j.Kind), cmp.Compare(i.Upstream, j.Upstream), cmp.Compare(i.Name, j.Name), cmp.Compare(i.Native, j.Native))
}

// The kinds of parts.
const (
	kindText       = "text"
	kindResource   = "resource"
	kindStructured = "structuredContent"
)

// Part is one content block of a result with a text or a blob, or its structuredContent.
type Part struct {
	Kind     string // "text", "resource" or "structuredContent"
	URI      string // of a resource
	MIMEType string // "" if it is not known
	// Start and End are where the text of the part is in the text of the document. They are
	// equal for a blob.
	Start, End int
	// JSON says that the text is a JSON object or array.
	JSON bool
	// Blob are the bytes of a resource that has no text.
	Blob []byte
}

// overhead is the approximate memory of a kept document in addition to its bytes.
const overhead = 512

// Size returns how many bytes of memory the document takes.
func (d *Document) Size() int64 {
	n := overhead + len(d.Text)
	for i := range d.Parts {
		p := &d.Parts[i]
		n += overhead/4 + len(p.URI) + len(p.MIMEType) + len(p.Blob)
	}
	for i := range d.Items {
		it := &d.Items[i]
		n += overhead/4 + len(it.Upstream) + len(it.Name) + len(it.Native)
	}
	return int64(n)
}

// text returns the text of a part.
func (d *Document) text(p *Part) []byte { return d.Text[p.Start:p.End] }

// bytes returns how many bytes the parts have together.
func (d *Document) bytes() int {
	n := len(d.Text)
	for i := range d.Parts {
		n += len(d.Parts[i].Blob)
	}
	return n
}

// mimeType returns the MIME type of the whole document.
func (d *Document) mimeType() string {
	if len(d.Parts) == 1 {
		return d.Parts[0].mimeType()
	}
	return "text/plain"
}

func (p *Part) mimeType() string {
	switch {
	case p.MIMEType != "":
		return p.MIMEType
	case p.JSON:
		return "application/json"
	case p.Blob != nil:
		return "application/octet-stream"
	default:
		return "text/plain"
	}
}

// Bounds of what a document keeps beside its texts.
const (
	maxParts    = 500 // the texts of all further blocks are one part
	maxURI      = 2048
	maxMIMEType = 128
)

// add appends a part with a text: that of a JSON string, or for structuredContent its JSON.
func (d *Document) add(p Part, v wire.Value) {
	if n := len(d.Text); n > 0 && d.Text[n-1] != '\n' {
		d.Text = append(d.Text, '\n')
	}
	p.Start = len(d.Text)
	if p.Kind == kindStructured {
		d.Text = append(d.Text, v.Raw()...)
	} else {
		d.Text = appendText(d.Text, v, len(v.Raw()))
	}
	p.End = len(d.Text)
	p.JSON = isJSON(d.text(&p))
	d.Parts = append(d.Parts, p)
}

// extend appends a text to the last part, on a line of its own.
func (d *Document) extend(v wire.Value) {
	last := len(d.Parts) - 1
	start := d.Parts[last].Start
	d.add(d.Parts[last], v)
	d.Parts = d.Parts[:last+1]
	d.Parts[last].Start, d.Parts[last].End, d.Parts[last].JSON = start, len(d.Text), false
}

// addBlob appends a part with a blob. A string that is not Base64 is a text.
func (d *Document) addBlob(p Part, v wire.Value) {
	blob, err := base64.StdEncoding.DecodeString(v.Str())
	if err != nil {
		d.add(p, v)
		return
	}
	p.Start, p.End, p.Blob = len(d.Text), len(d.Text), blob
	d.Parts = append(d.Parts, p)
}

// appendText appends the text of a JSON string: all of it, or a little more than the first enough
// bytes, if the text is longer. An escaped lone surrogate becomes U+FFFD.
func appendText(dst []byte, v wire.Value, enough int) []byte {
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	for enough += len(dst); len(dst) <= enough; {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || len(dst)+i > enough {
			return append(dst, raw[:min(len(raw), enough+1-len(dst))]...)
		}
		dst = append(dst, raw[:i]...)
		for i < len(raw) && raw[i] == '\\' { // escapes often follow one another
			c := content.ReadChar(raw, i)
			dst = utf8.AppendRune(dst, c.Rune)
			i = c.End
		}
		raw = raw[i:]
	}
	return dst
}

// isJSON reports whether a text is a JSON object or array.
func isJSON(text []byte) bool {
	t := bytes.TrimLeft(text, " \t\r\n")
	if len(t) == 0 || t[0] != '{' && t[0] != '[' {
		return false
	}
	return wire.Check(text, wire.Limits{}, wire.Lenient) == nil
}
