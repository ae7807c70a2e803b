package router

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/wire"
)

// Bounds on what a question shows, in characters: of one string among the
// arguments, and of all of them.
const (
	maxShownText = 300
	maxShown     = 4000
)

// consentQuestion is the params of an elicitation that asks whether a call may be
// made, with everything that the user needs to know for that. Nothing is asked
// for but the consent.
func consentQuestion(upstream string, t catalog.Target, params wire.Raw) wire.Raw {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", upstream)
	name := visible(t.Public, maxShownText)
	switch t.Kind {
	case call.Tool:
		fmt.Fprintf(&b, "may the tool %s be called?", name)
	case call.Prompt:
		fmt.Fprintf(&b, "may the prompt %s be used?", name)
	default:
		fmt.Fprintf(&b, "may the resource %s be read?", name)
	}
	if arguments := wire.ValueOf(params).Get("arguments"); arguments.Kind() != 0 && arguments.Kind() != 'n' {
		b.WriteString("\n\nArguments: ")
		s := shower{left: maxShown}
		s.value(arguments)
		b.WriteString(s.b.String())
		if s.left <= 0 {
			fmt.Fprintf(&b, "\n… (not all is shown: the arguments have %d bytes)", len(arguments.Raw()))
		}
	}
	out := wire.SetMember(wire.Raw(`{"mode":"form"}`), "message", wire.String(b.String()))
	return wire.SetMember(out, "requestedSchema", wire.Raw(`{"type":"object","properties":{}}`))
}

// shower writes JSON for people: without space between tokens, long strings cut,
// and up to a bound.
type shower struct {
	b    strings.Builder
	left int
}

func (s *shower) write(text string) {
	if s.left <= 0 {
		return
	}
	if n := utf8.RuneCountInString(text); n > s.left {
		text = string([]rune(text)[:s.left])
		s.left = 0
	} else {
		s.left -= n
	}
	s.b.WriteString(text)
}

func (s *shower) value(v wire.Value) {
	if s.left <= 0 {
		return
	}
	first := true
	next := func() {
		if !first {
			s.write(", ")
		}
		first = false
	}
	switch v.Kind() {
	case '{':
		s.write("{")
		for m := range v.Members() {
			if s.left <= 0 {
				return
			}
			next()
			s.write(`"` + visible(m.Key.Str(), maxShownText) + `": `)
			s.value(m.Value)
		}
		s.write("}")
	case '[':
		s.write("[")
		for el := range v.Elements() {
			if s.left <= 0 {
				return
			}
			next()
			s.value(el)
		}
		s.write("]")
	case '"':
		s.write(`"` + visible(v.Str(), maxShownText) + `"`)
	default:
		s.write(visible(string(v.Raw()), maxShownText))
	}
}

// visible returns text with everything written out that a reader does not see, or
// that changes how the rest is seen: control characters, marks of direction,
// invisible characters, spaces that are none; and cut to a number of characters.
func visible(text string, most int) string {
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

// isHidden reports whether a character counts as printable and shows nothing, or
// hides in the one before it.
func isHidden(r rune) bool {
	return unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Mn, unicode.Me) ||
		r == 0x2800 || r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0
}
