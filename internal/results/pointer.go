package results

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// maxSteps bounds the steps of a pointer: each one reads the value that it leads to.
const maxSteps = 64

// lookup returns the value at a JSON Pointer (RFC 6901). The error says which step failed, and
// what would be there.
func lookup(doc wire.Value, pointer string) (wire.Value, error) {
	if pointer == "" {
		return doc, nil
	}
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return wire.Value{}, fmt.Errorf("pointer must begin with /, such as /items/3, or be empty for the whole value; it is %s", quote(pointer))
	}
	steps := strings.Split(rest, "/")
	if len(steps) > maxSteps {
		return wire.Value{}, fmt.Errorf("pointer has %d steps; at most %d are read", len(steps), maxSteps)
	}
	v := doc
	for i, step := range steps {
		name, err := unescapeStep(step)
		if err != nil {
			return wire.Value{}, err
		}
		next, err := child(v, name)
		if err != nil {
			at := "the value"
			if i > 0 {
				at = quote("/" + strings.Join(steps[:i], "/"))
			}
			return wire.Value{}, fmt.Errorf("pointer %s: %s %w", quote(pointer), at, err)
		}
		v = next
	}
	return v, nil
}

// unescapeStep returns the name that a step of a pointer stands for.
func unescapeStep(step string) (string, error) {
	for i := 0; i < len(step); i++ {
		if step[i] == '~' && (i+1 == len(step) || step[i+1] != '0' && step[i+1] != '1') {
			return "", errors.New("in a pointer, ~ is written ~0 and / in a name is written ~1")
		}
	}
	return stepDecoder.Replace(step), nil
}

var (
	stepDecoder = strings.NewReplacer("~1", "/", "~0", "~")
	stepEncoder = strings.NewReplacer("~", "~0", "/", "~1")
)

// child returns the member or the element of v with this name. The error follows the name of v.
func child(v wire.Value, name string) (wire.Value, error) {
	switch v.Kind() {
	case '{':
		if m := v.Get(name); m.Exists() {
			return m, nil
		}
		return wire.Value{}, fmt.Errorf("has no member %s; %s", quote(name), memberNames(v))
	case '[':
		i, err := parseCount(name)
		if err != nil || len(name) > 1 && name[0] == '0' {
			return wire.Value{}, fmt.Errorf("is an array: the next step must be an index, not %s", quote(name))
		}
		n := 0
		for el := range v.Elements() {
			if n == i {
				return el, nil
			}
			n++
		}
		return wire.Value{}, fmt.Errorf("has %d elements, numbered from 0", n)
	default:
		return wire.Value{}, fmt.Errorf("is %s, which has no members", v.KindName())
	}
}

// memberNames lists the first members of an object, for an error.
func memberNames(v wire.Value) string {
	const most = 12
	var names []string
	for m := range v.Members() {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, quote(m.Key.Str()))
	}
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// valueText returns a value as text: the text of a string, the JSON of another value. Control
// and invisible characters, which sanitizing removed or left escaped, stay escaped.
func valueText(v wire.Value) []byte {
	if v.Kind() != '"' {
		return v.Raw()
	}
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	out := make([]byte, 0, len(raw))
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:i]...)
		c := content.ReadChar(raw, i)
		if isHidden(c.Rune) {
			out = append(out, raw[i:c.End]...)
		} else {
			out = append(out, string(c.Rune)...)
		}
		raw = raw[c.End:]
	}
}

// isHidden reports whether a character that was escaped has to stay so.
func isHidden(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	}
	return unicode.IsControl(r) || plaintext.IsInvisible(r)
}

// quote returns a text from outside in quotes, short and without hidden characters.
func quote(s string) string { return strconv.Quote(plaintext.Clip(s, 64)) }
