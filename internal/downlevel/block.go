package downlevel

import (
	"strconv"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// blockEditor replaces content blocks that a revision does not know.
type blockEditor struct {
	editor
	audio, link bool // are replaced
}

func newBlockEditor(rev wire.Revision, doc wire.Raw) blockEditor {
	return blockEditor{
		editor: editor{LazyEdit: content.LazyEdit{Doc: doc}},
		audio:  !rev.AtLeast(wire.Rev20250326) && wire.ValueOf(doc).MayContain("audio"),
		link:   !rev.AtLeast(wire.Rev20250618) && wire.ValueOf(doc).MayContain("_link"),
	}
}

// any reports whether the document may contain such blocks.
func (b *blockEditor) any() bool { return b.audio || b.link }

// replace replaces the block v by text if the revision does not know its type. If the
// member type occurs twice, each counts, since clients differ in the one that they read.
func (b *blockEditor) replace(v wire.Value) {
	for m := range v.Members() {
		if !m.Is("type") {
			continue
		}
		switch {
		case b.audio && m.Value.IsString("audio"):
			b.put(Audio, v, audioText(v))
			return
		case b.link && m.Value.IsString("resource_link"):
			b.put(ResourceLink, v, linkText(v))
			return
		}
	}
}

// put replaces the block v by a text block. text is the inside of a JSON string.
// Annotations and _meta stay.
func (b *blockEditor) put(k Kind, v wire.Value, text []byte) {
	out := make([]byte, 0, len(text)+64)
	out = append(out, `{"type":"text","text":"`...)
	out = append(out, text...)
	out = append(out, '"')
	for _, name := range []string{"annotations", "_meta"} {
		if member := v.Get(name); member.Kind() == '{' {
			out = append(out, `,"`...)
			out = append(out, name...)
			out = append(out, `":`...)
			out = append(out, member.Raw()...)
		}
	}
	b.count(k).Replace(v, append(out, '}'))
}

// audioText describes an audio block. The sound itself has no older form.
func audioText(v wire.Value) []byte {
	text := []byte("Audio, left out because the client's protocol revision has none.")
	text = appendLine(text, "MIME type", v.Get("mimeType"))
	if size, ok := content.Base64Size(v.Get("data")); ok {
		text = append(text, `\nSize: `...)
		text = strconv.AppendInt(text, int64(size), 10)
		text = append(text, " bytes"...)
	}
	return text
}

// linkText describes a resource link.
func linkText(v wire.Value) []byte {
	text := []byte("Link to a resource.")
	text = appendLine(text, "Name", v.Get("name"))
	text = appendLine(text, "Title", v.Get("title"))
	text = appendLine(text, "URI", v.Get("uri"))
	text = appendLine(text, "Description", v.Get("description"))
	text = appendLine(text, "MIME type", v.Get("mimeType"))
	if size := v.Get("size"); size.Kind() == '0' {
		text = append(text, `\nSize: `...)
		text = append(text, size.Raw()...)
		text = append(text, " bytes"...)
	}
	return text
}

// appendLine appends a line with the string v to the inside of a JSON string, escapes
// included. It ignores other values.
func appendLine(text []byte, name string, v wire.Value) []byte {
	if v.Kind() != '"' {
		return text
	}
	raw := v.Raw()
	text = append(text, `\n`+name+": "...)
	return append(text, raw[1:len(raw)-1]...)
}
