package webui

import (
	"encoding/base64"
	"mime"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/wire"
)

const (
	// maxBlocks bounds the blocks of one result on a page.
	maxBlocks = 200
	// maxBlockText bounds the text of one of them, in bytes.
	maxBlockText = 64 << 10
	// maxTryCells bounds the values of a structured result on a page, and maxTableDepth how deep they nest.
	maxTryCells   = 2000
	maxTableDepth = 5
	// maxColumns bounds the columns of one table.
	maxColumns = 20
)

// block is a part of a result.
type block struct {
	Kind                         string // text, image, audio, resource, link, other
	Role                         string // of the message of a prompt
	Text                         string
	Cut                          bool
	Type, URI, Name, Description string
	Part                         string // the number of its bytes, "" without bytes
	Show                         string // img or audio if a browser shows the bytes in place

	data wire.Value // base64
}

// inPlace are the types that a browser shows in place. SVG is none: it is a document with scripts.
var inPlace = map[string]string{
	"image/png": "img", "image/jpeg": "img", "image/gif": "img", "image/webp": "img", "image/avif": "img",
	"audio/mpeg": "audio", "audio/mp3": "audio", "audio/wav": "audio", "audio/x-wav": "audio", "audio/wave": "audio", "audio/ogg": "audio",
	"audio/webm": "audio", "audio/mp4": "audio", "audio/aac": "audio", "audio/flac": "audio",
}

// mediaType returns the type without parameters, "" if it is none.
func mediaType(text string) string {
	t, _, err := mime.ParseMediaType(text)
	if err != nil {
		return ""
	}
	return t
}

// blocksOf returns the parts of a result, and whether there are more.
func blocksOf(kind call.Kind, result wire.Value) (blocks []block, more bool) {
	add := func(b block) bool {
		if len(blocks) == maxBlocks {
			more = true
			return false
		}
		if b.data.Kind() == '"' {
			b.Part, b.Show = strconv.Itoa(len(blocks)), inPlace[mediaType(b.Type)]
		}
		if len(b.Text) > maxBlockText {
			b.Text, b.Cut = clip(b.Text, maxBlockText), true
		}
		blocks = append(blocks, b)
		return true
	}
	switch kind {
	case call.Tool:
		for c := range result.Get("content").Elements() {
			if !add(contentBlock(c)) {
				break
			}
		}
	case call.Prompt:
		for m := range result.Get("messages").Elements() {
			content := slices.Collect(m.Get("content").Elements())
			if m.Get("content").Kind() == '{' {
				content = []wire.Value{m.Get("content")}
			}
			for _, c := range content {
				b := contentBlock(c)
				b.Role = clip(m.Get("role").Str(), 40)
				if !add(b) {
					return blocks, more
				}
			}
		}
	default:
		for c := range result.Get("contents").Elements() {
			if !add(resourceBlock(c)) {
				break
			}
		}
	}
	return blocks, more
}

// contentBlock returns a content block.
func contentBlock(c wire.Value) block {
	switch t := c.Get("type").Str(); t {
	case "text":
		return block{Kind: "text", Text: c.Get("text").Str()}
	case "image", "audio":
		return block{Kind: t, Type: clip(c.Get("mimeType").Str(), 200), data: c.Get("data")}
	case "resource":
		return resourceBlock(c.Get("resource"))
	case "resource_link":
		return block{
			Kind: "link", URI: c.Get("uri").Str(), Name: clip(c.Get("name").Str(), 400), Type: clip(c.Get("mimeType").Str(), 200),
			Description: clip(c.Get("description").Str(), 2000),
		}
	}
	text, _ := jsontext.Indented(c.Raw())
	return block{Kind: "other", Text: text}
}

// resourceBlock returns the contents of a resource.
func resourceBlock(c wire.Value) block {
	return block{Kind: "resource", URI: c.Get("uri").Str(), Type: clip(c.Get("mimeType").Str(), 200), Text: c.Get("text").Str(), data: c.Get("blob")}
}

// bytesOf returns the bytes of a block and the type under which a browser gets them: that of the server if it can be shown, else one
// that is only saved.
func (b *block) bytesOf() (data []byte, contentType string, err error) {
	data, err = base64.StdEncoding.DecodeString(b.data.Str())
	if b.Show != "" {
		return data, mediaType(b.Type), err
	}
	return data, "application/octet-stream", err
}

// cell is a value of a structured result.
type cell struct {
	Text string
	// Columns and Rows are a table if there are any. Each row has a cell for each column.
	Columns []string
	Rows    [][]cell
	// Members are those of an object that is no table.
	Members []member
	Items   []cell
}

type member struct {
	Name  string
	Value cell
}

// tableOf returns a structured result, and whether it is longer than what is shown.
func tableOf(v wire.Value) (c cell, more bool) {
	t := tableMaker{left: maxTryCells}
	return t.cell(v, 0), t.left == 0
}

type tableMaker struct{ left int }

func (t *tableMaker) cell(v wire.Value, depth int) (c cell) {
	if t.left == 0 {
		return cell{Text: "…"}
	}
	t.left--
	switch {
	case depth < maxTableDepth && v.Kind() == '{':
		for m := range v.Members() {
			if t.left == 0 {
				break
			}
			c.Members = append(c.Members, member{clip(m.Key.Str(), 200), t.cell(m.Value, depth+1)})
		}
	case depth < maxTableDepth && v.Kind() == '[':
		if c.Columns = columnsOf(v); c.Columns != nil {
			t.rows(&c, v, depth)
			break
		}
		for item := range v.Elements() {
			if t.left == 0 {
				break
			}
			c.Items = append(c.Items, t.cell(item, depth+1))
		}
	default:
		return cell{Text: clip(jsontext.Plain(v), maxTryLine)}
	}
	if c.Members == nil && c.Items == nil && c.Rows == nil {
		c.Text = strings.TrimSpace(string(v.Raw()))
	}
	return c
}

// columnsOf returns the names of the members if all elements are objects, in the order in which they come.
func columnsOf(v wire.Value) (columns []string) {
	n := 0
	for item := range v.Elements() {
		if item.Kind() != '{' {
			return nil
		}
		if n++; n > maxTryCells {
			break
		}
		for m := range item.Members() {
			name := m.Key.Str()
			if slices.Contains(columns, name) {
				continue
			}
			if len(columns) == maxColumns {
				return nil
			}
			columns = append(columns, name)
		}
	}
	return columns
}

func (t *tableMaker) rows(c *cell, v wire.Value, depth int) {
	for item := range v.Elements() {
		if t.left == 0 {
			return
		}
		row := make([]cell, len(c.Columns))
		for i, name := range c.Columns {
			if value := item.Get(name); value.Exists() {
				row[i] = t.cell(value, depth+1)
			}
		}
		c.Rows = append(c.Rows, row)
	}
}
