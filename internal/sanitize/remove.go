package sanitize

import (
	"unicode"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
)

// inside returns the inside of a JSON string without the characters to remove, nil if
// there are none. All other characters stay as they are written.
func (c *sanitizer) inside(s []byte) []byte {
	if !mayNeedRemoval(s) {
		return nil
	}
	var out []byte
	kept := 0         // s[:kept] is in out already, or stays
	before := rune(0) // the last character that stays
	cut := false      // something was removed after it
	drop := func(from, to int) {
		if out == nil {
			out = make([]byte, 0, len(s)) // not nil, also if nothing stays
		}
		out = append(out, s[kept:from]...)
		kept, cut = to, true
	}
	for i := 0; i < len(s); {
		u := content.ReadChar(s, i)
		if end := c.escape(s, u); end > 0 {
			c.counts[0]++
			drop(u.Start, end)
			i = end
			continue
		}
		i = u.End
		switch {
		case c.s&Control != 0 && isControl(u.Rune):
			c.counts[1]++
			drop(u.Start, u.End)
			continue
		case cut && isLow(u.Rune) && isHigh(before):
			// The removed text separated the two halves of a surrogate pair.
			c.counts[2]++
			drop(u.Start, u.End)
			continue
		case c.s&Invisible != 0 && plaintext.IsInvisible(u.Rune):
			if end := flagEnd(s, u, before); end > 0 {
				i, before, cut = end, 0xe007f, false
				continue
			}
			if inARow(before, u.Rune) || !isNeeded(u.Rune, before, after(s, u.End)) {
				c.counts[2]++
				drop(u.Start, u.End)
				continue
			}
		}
		before, cut = u.Rune, false
	}
	if kept == 0 {
		return nil
	}
	return append(out, s[kept:]...)
}

// inARow reports whether r would be the second invisible character in a row. In emoji, a
// joiner may follow another one.
func inARow(before, r rune) bool {
	return plaintext.IsInvisible(before) && !(r == 0x200d && (before == 0xfe0f || before == 0xe007f))
}

func isHigh(r rune) bool { return 0xD800 <= r && r < 0xDC00 }
func isLow(r rune) bool  { return 0xDC00 <= r && r < 0xE000 }

// after returns the character at i, 0 at the end.
func after(s []byte, i int) rune {
	if i >= len(s) {
		return 0
	}
	return content.ReadChar(s, i).Rune
}

func isControl(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0
}

// escape returns the end of the terminal escape that begins at u, 0 if none does
// (ECMA-48). Of an escape without an end only the introducer is removed, so that it
// cannot hide the rest of the text.
func (c *sanitizer) escape(s []byte, u content.Char) int {
	if c.s&ANSI == 0 {
		return 0
	}
	kind, at := u.Rune, u.End
	switch {
	case u.Rune == 0x1b:
		if at >= len(s) {
			return at
		}
		next := content.ReadChar(s, at)
		if next.Rune < 0x40 || next.Rune > 0x5f {
			return escapeEnd(s, u.End)
		}
		kind, at = next.Rune+0x40, next.End
	case u.Rune < 0x80 || u.Rune > 0x9f:
		return 0
	}
	switch kind {
	case 0x9b: // CSI
		return sequenceEnd(s, at)
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f: // DCS, SOS, OSC, PM, APC
		return stringEnd(s, at)
	case 0x9c: // ST without a beginning
		return at
	}
	if u.Rune == 0x1b {
		return at
	}
	return 0 // other C1 characters are control characters
}

// escapeEnd returns the end of an escape of intermediate and final characters.
func escapeEnd(s []byte, at int) int {
	for i := at; i < len(s); {
		u := content.ReadChar(s, i)
		switch {
		case 0x20 <= u.Rune && u.Rune < 0x30 && u.End-at < 16:
			i = u.End
		case 0x30 <= u.Rune && u.Rune < 0x7f:
			return u.End
		default:
			return at
		}
	}
	return at
}

// maxSequence bounds the parameters of an escape, in bytes.
const maxSequence = 256

// sequenceEnd returns the end of a control sequence: parameters, intermediate characters and
// a final one.
func sequenceEnd(s []byte, at int) int {
	for i := at; i < len(s) && i-at < maxSequence; {
		u := content.ReadChar(s, i)
		switch {
		case 0x20 <= u.Rune && u.Rune < 0x40:
			i = u.End
		case 0x40 <= u.Rune && u.Rune < 0x7f:
			return u.End
		default:
			return at
		}
	}
	return at
}

// stringEnd returns the end of a control string: BEL or ST.
func stringEnd(s []byte, at int) int {
	for i := at; i < len(s); {
		u := content.ReadChar(s, i)
		switch u.Rune {
		case 0x07, 0x9c:
			return u.End
		case 0x1b:
			if u.End < len(s) {
				if next := content.ReadChar(s, u.End); next.Rune == '\\' {
					return next.End
				}
			}
			return at // another escape begins, so this one has no end
		}
		if u.Rune == 0x18 || u.Rune == 0x1a || 0x80 <= u.Rune && u.Rune < 0xa0 {
			return at
		}
		i = u.End
	}
	return at
}

// Scripts that need joiners for correct spelling: those of India and its neighbors, and
// cursive ones.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Mandaic,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu,
	unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Thaana,
	unicode.Balinese, unicode.Javanese, unicode.Grantha, unicode.Brahmi, unicode.Chakma, unicode.Newa,
}

// Scripts without spaces between words, which use zero width spaces.
var spaceless = []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese}

// Scripts that are written from right to left.
var leftward = []*unicode.RangeTable{unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Mandaic, unicode.Samaritan, unicode.Adlam}

// isNeeded reports whether an invisible character has a function between its neighbors.
// The caller allows one at a time, since several in a row can encode hidden text.
func isNeeded(r, before, next rune) bool {
	switch {
	case r == 0x200d: // joiner
		return isPictograph(before) && isPictograph(next) || unicode.In(before, joining...)
	case r == 0x200c: // non-joiner
		return unicode.In(before, joining...) && unicode.In(next, joining...)
	case r == 0x200b:
		return unicode.In(before, spaceless...) && unicode.In(next, spaceless...)
	case r == 0x200e || r == 0x200f || r == 0x061c:
		return unicode.In(before, leftward...) || unicode.In(next, leftward...)
	case r == 0xfe0e || r == 0xfe0f: // text or emoji presentation
		return isPictograph(before) || '0' <= before && before <= '9' || before == '#' || before == '*'
	case 0xfe00 <= r && r <= 0xfe0d:
		return unicode.In(before, unicode.Han, unicode.Myanmar, unicode.Phags_Pa, unicode.Sm)
	case 0xe0100 <= r && r <= 0xe01ef:
		return unicode.Is(unicode.Han, before)
	case 0x180b <= r && r <= 0x180f && r != 0x180e:
		return unicode.Is(unicode.Mongolian, before)
	case r == 0x180e:
		return unicode.Is(unicode.Mongolian, before) && unicode.Is(unicode.Mongolian, next)
	case r == 0x034f:
		return unicode.In(before, unicode.Mn, unicode.Hebrew) && unicode.Is(unicode.Mn, next)
	case r == 0x115f:
		return 0x1160 <= next && next <= 0x11ff
	case r == 0x1160:
		return 0x1100 <= before && before <= 0x115f
	}
	return false
}

// isPictograph reports whether a character is an emoji, or may be part of one.
func isPictograph(r rune) bool {
	switch {
	case 0x1f000 <= r && r <= 0x1faff,
		0x2190 <= r && r <= 0x21ff, 0x2300 <= r && r <= 0x23ff, 0x2460 <= r && r <= 0x24ff,
		0x25a0 <= r && r <= 0x27bf, 0x2900 <= r && r <= 0x297f, 0x2b00 <= r && r <= 0x2bff:
		return true
	}
	switch r {
	case 0xa9, 0xae, 0x203c, 0x2049, 0x20e3, 0x2122, 0x2139, 0x3030, 0x303d, 0x3297, 0x3299, 0xfe0f, 0xe007f:
		return true
	}
	return false
}

// flags are the tag sequences of the flags of England, Scotland and Wales. Other tag
// sequences can encode hidden text.
var flags = []string{"gbeng", "gbsct", "gbwls"}

// flagEnd returns the end of the tag sequence of a flag that begins at u, 0 if there is
// none.
func flagEnd(s []byte, u content.Char, before rune) int {
	if before != 0x1f3f4 {
		return 0
	}
	for _, flag := range flags {
		at := u.Start
		matched := true
		for _, want := range flag + "\x7f" {
			if at >= len(s) {
				matched = false
				break
			}
			tag := content.ReadChar(s, at)
			if tag.Rune != 0xe0000+want {
				matched = false
				break
			}
			at = tag.End
		}
		if matched {
			return at
		}
	}
	return 0
}
