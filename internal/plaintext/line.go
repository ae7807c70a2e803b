package plaintext

import (
	"strings"
	"unicode"
)

// Line returns a text from outside on one line, for logs: runs of white space become one space,
// characters that cannot be seen are left out, and at most maxBytes stay, as in [Clip].
func Line(s string, maxBytes int) string {
	s = Clip(s, 2*maxBytes+64) // the rest is not looked at
	space := false
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case !unicode.IsPrint(r), IsInvisible(r):
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return Clip(b.String(), maxBytes)
}
