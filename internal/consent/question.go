package consent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// maxQuestion bounds the message of a question, in bytes, and maxLevels the nesting of the
// arguments in it. People read no more, and each level is a recursion.
const (
	maxQuestion = 16 << 10
	maxLevels   = 32
)

// detail says how much of single values a question shows: the characters of a string, and the
// elements of an array that holds neither objects nor arrays. Names of members are always shown
// whole, because the user cannot consent to something hidden.
type detail struct{ text, elements, total int }

// details are tried in this order until the question fits.
var details = []detail{{4000, 4000, 4000}, {300, 300, maxQuestion}, {60, 20, maxQuestion}, {16, 4, maxQuestion}}

// Question returns the params of an elicitation that asks whether a call may be made. The
// question shows the item and every member of the arguments; long values are cut, with their
// length and digest. It asks only for the consent. It reports false if the question would be too
// long.
func Question(upstream string, kind call.Kind, public string, params wire.Raw) (wire.Raw, bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", upstream)
	name := escapeInvisible(public, maxQuestion)
	switch kind {
	case call.Tool:
		fmt.Fprintf(&b, "may the tool %s be called?", name)
	case call.Prompt:
		fmt.Fprintf(&b, "may the prompt %s be used?", name)
	default:
		fmt.Fprintf(&b, "may the resource %s be read?", name)
	}
	if arguments := wire.ValueOf(params).Get("arguments"); arguments.Kind() != 0 && arguments.Kind() != 'n' {
		b.WriteString("\n\nArguments: ")
		text, ok := renderArguments(arguments)
		if !ok {
			return nil, false
		}
		b.WriteString(text)
	}
	if b.Len() > maxQuestion || len(public) > maxQuestion {
		return nil, false
	}
	out := wire.SetMember(wire.Raw(`{"mode":"form"}`), "message", wire.String(b.String()))
	return wire.SetMember(out, "requestedSchema", wire.Raw(`{"type":"object","properties":{}}`)), true
}

// renderArguments returns JSON for people in as much detail as fits, and whether it fits.
func renderArguments(v wire.Value) (string, bool) {
	for _, d := range details {
		s := argumentWriter{detail: d}
		switch s.value(v, 1); {
		case s.deep:
			return "", false
		case s.b.Len() <= d.total:
			return s.b.String(), true
		}
	}
	return "", false
}

// argumentWriter writes JSON for people. It stops soon after the total of its detail.
type argumentWriter struct {
	detail
	b    strings.Builder
	deep bool // there are more than maxLevels
}

func (s *argumentWriter) value(v wire.Value, level int) {
	kind := v.Kind()
	if level > maxLevels && (kind == '{' || kind == '[') {
		s.deep = true
		return
	}
	switch kind {
	case '{':
		lead := "{"
		for m := range v.Members() {
			if s.b.Len() > s.total {
				return
			}
			s.b.WriteString(lead + `"` + escapeInvisible(m.Key.Str(), s.total) + `": `)
			s.value(m.Value, level+1)
			lead = ", "
		}
		s.b.WriteString(strings.TrimPrefix(lead, ", ") + "}")
	case '[':
		most := s.elements
		if isNested(v) {
			most = math.MaxInt
		}
		s.b.WriteString("[")
		n := 0
		for el := range v.Elements() {
			if s.b.Len() > s.total {
				return
			}
			if n++; n > most {
				continue
			}
			if n > 1 {
				s.b.WriteString(", ")
			}
			s.value(el, level+1)
		}
		if n > most {
			fmt.Fprintf(&s.b, ", … (%d elements more, sha256 of all %s)", n-most, digest(string(v.Raw())))
		}
		s.b.WriteString("]")
	case '"':
		s.b.WriteString(`"` + renderText(v.Str(), s.text) + `"`)
	default:
		s.b.WriteString(renderText(string(v.Raw()), s.text))
	}
}

// isNested reports whether an array holds objects or arrays.
func isNested(v wire.Value) bool {
	for el := range v.Elements() {
		if k := el.Kind(); k == '{' || k == '[' {
			return true
		}
	}
	return false
}

// renderText returns the text of a value without invisible characters. If it cuts the text it adds
// the length and the digest, so that the user can compare them with a file.
func renderText(text string, most int) string {
	out := escapeInvisible(text, most)
	if len(text) > most && utf8.RuneCountInString(text) > most {
		out += fmt.Sprintf(" (%d bytes, sha256 %s)", len(text), digest(text))
	}
	return out
}

// digest returns the beginning of the SHA-256 of text. It hashes the bytes, unlike
// [wire.AppendDigest], because the user compares it with the digest of a file.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// escapeInvisible escapes the characters of text that a reader does not see or that change how the
// rest looks: control characters, direction marks, invisible characters and unusual spaces. It cuts
// the text after this number of characters.
func escapeInvisible(text string, most int) string {
	var b strings.Builder
	n := 0
	for i, r := range text {
		if n == most {
			fmt.Fprintf(&b, "… (%d bytes more)", len(text)-i)
			break
		}
		n++
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.IsPrint(r) && !isHidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isHidden reports whether a printable character shows nothing, or is part of the one before it.
func isHidden(r rune) bool {
	return plaintext.IsInvisible(r) || unicode.In(r, unicode.Mn, unicode.Me) || r == 0x2800 // which is blank in braille
}
