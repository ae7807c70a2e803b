package content

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"mcpgateway/internal/wire"
)

// TextBlock returns a text block.
func TextBlock(text string) wire.Raw {
	out := make(wire.Raw, 0, len(text)+len(text)/8+32)
	out = append(out, `{"type":"text","text":`...)
	out = wire.AppendString(out, text)
	return append(out, '}')
}

// HasTextOf reports whether one of the blocks is a text with the JSON of v, in any
// spelling. For a string v, a text that equals the string counts too.
func HasTextOf(blocks, v wire.Value) bool {
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

// canonical returns the canonical form of a JSON text (RFC 8785), nil if it has none.
func canonical(text string) []byte {
	v := jsontext.Value(text)
	if v.Canonicalize() != nil {
		return nil
	}
	return v
}

// AppendElement returns an array with one more element. An absent array counts as empty.
func AppendElement(array wire.Value, element wire.Raw) wire.Raw {
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
