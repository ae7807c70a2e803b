package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"mcpgateway/internal/wire"
)

// Result writes the result of a tool: text as it is, other content by kind, MIME type and size, and
// structured content if there is no text. On a terminal control characters are escaped.
func Result(w io.Writer, s Style, terminal bool, result wire.Raw) error {
	show := func(text string) string {
		if terminal {
			return Clean(text)
		}
		return text
	}
	var b strings.Builder
	texts := 0
	root := wire.ValueOf(result)
	for block := range root.Get("content").Elements() {
		text := ""
		if block.Get("type").IsString("text") {
			text = show(block.Get("text").Str())
			texts++
		} else {
			text = s.Dim(blockLine(block))
			if inside, ok := block.Get("resource").Get("text").Text(); ok && block.Get("type").IsString("resource") {
				text += "\n" + show(inside)
				texts++
			}
		}
		b.WriteString(strings.TrimSuffix(text, "\n") + "\n")
	}
	if structured := root.Get("structuredContent"); structured.Exists() && texts == 0 {
		var out bytes.Buffer
		if err := json.Indent(&out, structured.Raw(), "", "  "); err != nil {
			return err
		}
		b.WriteString(show(out.String()) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// blockLine describes a block that is not text.
func blockLine(block wire.Value) string {
	kind := Line(block.Get("type").Str())
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, Line(text))
		}
	}
	switch kind {
	case "image", "audio":
		add(block.Get("mimeType").Str())
		add(Bytes(decoded(block.Get("data").Str())))
	case "resource":
		r := block.Get("resource")
		add(r.Get("uri").Str())
		add(r.Get("mimeType").Str())
		if blob, ok := r.Get("blob").Text(); ok {
			add(Bytes(decoded(blob)))
		} else {
			add(Bytes(len(r.Get("text").Str())))
		}
	case "resource_link":
		add(block.Get("uri").Str())
		add(block.Get("name").Str())
		add(block.Get("mimeType").Str())
		if size, ok := block.Get("size").Int(); ok {
			add(Bytes(int(size)))
		}
	default:
		add(fmt.Sprintf("an unknown kind of block, %s of JSON", Bytes(len(block.Raw()))))
	}
	return "[" + kind + ": " + strings.Join(parts, ", ") + "]"
}

// decoded is the length of decoded Base64.
func decoded(base64 string) int {
	n := len(strings.TrimRight(base64, "="))
	return n * 3 / 4
}

// ResultText is the text of a result, for a message about it.
func ResultText(result wire.Raw) string {
	var texts []string
	for block := range wire.ValueOf(result).Get("content").Elements() {
		if block.Get("type").IsString("text") {
			texts = append(texts, block.Get("text").Str())
		}
	}
	return strings.Join(texts, "\n")
}
