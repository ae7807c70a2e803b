package script

import (
	"errors"
	"strings"

	"go.starlark.net/starlark"

	"mcpgateway/internal/wire"
)

// reading is the content of a result as values.
type reading struct {
	value starlark.Value
	text  string
}

// read returns the content of an outcome. failed is the text of an error of the tool or of
// the host; err ends the script.
func (r *Run) read(o outcome) (v reading, failed string, err error) {
	v.value = starlark.None
	if o.err != nil {
		if e, ok := errors.AsType[*wire.Error](o.err); ok {
			return v, clip(e.Message, maxMessage), nil
		}
		return v, clip(o.err.Error(), maxMessage), nil
	}
	result := wire.ValueOf(o.result)
	if err := r.fits(int64(len(o.result))); err != nil { // the text is no longer
		return v, "", err
	}
	v.text = textOfContent(result.Get("content"))
	if err := r.alloc(int64(len(v.text))); err != nil {
		return v, "", err
	}
	if result.Get("isError").Bool() {
		if v.text == "" {
			return v, "the tool reported an error without a text", nil
		}
		return v, clip(v.text, maxMessage), nil
	}
	v.value, err = r.natural(result, v.text)
	return v, "", err
}

// natural returns the value of a result: its structured content, or its text, decoded if it
// is one block with a JSON object or array.
func (r *Run) natural(result wire.Value, text string) (starlark.Value, error) {
	if structured := result.Get("structuredContent"); structured.Exists() {
		return r.value(structured)
	}
	blocks, texts := 0, 0
	for b := range result.Get("content").Elements() {
		blocks++
		if b.Get("type").IsString("text") {
			texts++
		}
	}
	if blocks == 0 {
		return starlark.None, nil
	}
	if trimmed := strings.TrimSpace(text); blocks == 1 && texts == 1 && (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) {
		r.work(len(trimmed))
		if raw := wire.Raw(trimmed); wire.Check(raw, wire.Limits{Depth: maxNesting}, wire.Strict) == nil {
			return r.value(wire.ValueOf(raw))
		}
	}
	return starlark.String(text), nil
}

// textOfContent returns the text of content blocks, one after the other. A block without text
// is named in brackets.
func textOfContent(content wire.Value) string {
	var parts []string
	for b := range content.Elements() {
		kind := b.Get("type").Str()
		switch {
		case kind == "text":
			parts = append(parts, b.Get("text").Str())
		case b.Get("resource", "text").Exists():
			parts = append(parts, b.Get("resource", "text").Str())
		case b.Get("uri").Exists():
			parts = append(parts, "["+kind+" "+b.Get("uri").Str()+"]")
		default:
			parts = append(parts, strings.TrimRight("["+kind+" "+b.Get("mimeType").Str(), " ")+"]")
		}
	}
	return strings.Join(parts, "\n")
}
