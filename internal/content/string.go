package content

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Char is one character of a JSON string and its position in the text that was read.
type Char struct {
	Rune       rune // a surrogate if it is not part of a pair
	Start, End int
}

// ReadChar returns the character that begins at index i of the text between the quotes
// of a valid JSON string.
func ReadChar(s []byte, i int) Char {
	if s[i] != '\\' {
		r, n := utf8.DecodeRune(s[i:])
		return Char{r, i, i + n}
	}
	switch s[i+1] {
	case 'b':
		return Char{'\b', i, i + 2}
	case 'f':
		return Char{'\f', i, i + 2}
	case 'n':
		return Char{'\n', i, i + 2}
	case 'r':
		return Char{'\r', i, i + 2}
	case 't':
		return Char{'\t', i, i + 2}
	case 'u':
		r := parseHex(s[i+2:])
		if utf16.IsSurrogate(r) && i+11 < len(s) && s[i+6] == '\\' && s[i+7] == 'u' {
			if pair := utf16.DecodeRune(r, parseHex(s[i+8:])); pair != utf8.RuneError {
				return Char{pair, i, i + 12}
			}
		}
		return Char{r, i, i + 6}
	default:
		return Char{rune(s[i+1]), i, i + 2}
	}
}

// parseHex returns the number that four hexadecimal digits stand for.
func parseHex(s []byte) rune {
	n := rune(0)
	for _, c := range s[:4] {
		n <<= 4
		switch {
		case c >= 'a':
			n += rune(c-'a') + 10
		case c >= 'A':
			n += rune(c-'A') + 10
		default:
			n += rune(c - '0')
		}
	}
	return n
}
