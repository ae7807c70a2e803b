package console

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/plaintext"
)

// Clean makes text of a server safe for a terminal: control characters, also those that hide or reorder
// text, become visible escapes. Line ends and tabs stay.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unsafe) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unsafe(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func unsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == 0x200d || r == 0xfe0e || r == 0xfe0f: // the last ones make emoji
		return false
	case unicode.IsControl(r) || plaintext.IsInvisible(r):
		return true
	}
	return r == 0x2028 || r == 0x2029
}

// Line is text on one line: line ends and runs of spaces become one space.
func Line(s string) string { return Clean(strings.Join(strings.Fields(s), " ")) }

// Width is the number of terminal columns of a text.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Cut shortens a text to a number of columns, with … at the end of a shortened text, which loses its style.
func Cut(s string, columns int) string {
	unstyled := plain(s)
	if columns <= 0 || Width(unstyled) <= columns {
		return s
	}
	s = unstyled
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// Wrap breaks a text between words into lines of at most a number of columns, each after an indentation. 0 means one
// line. A longer word has a line of its own.
func Wrap(text, indent string, columns int) string {
	var out strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		w := Width(plain(word))
		switch {
		case i > 0 && (columns <= 0 || used+1+w <= columns):
			out.WriteString(" " + word)
			used += 1 + w
			continue
		case i > 0:
			out.WriteString("\n")
		}
		out.WriteString(indent + word)
		used = Width(indent) + w
	}
	return out.String()
}

// Fold breaks the lines of a text that are wider than a number of columns between words. The rest of a line is
// indented by two more spaces. Other lines stay as they are, and so do runs of spaces within a line. 0 means no
// limit.
func Fold(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if Width(plain(line)) > columns {
			lines[i] = foldLine(line, columns)
		}
	}
	return strings.Join(lines, "\n")
}

func foldLine(line string, columns int) string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	var out strings.Builder
	out.WriteString(indent)
	used, begun := len(indent), false
	for text != "" {
		word := strings.TrimLeft(text, " ")
		spaces := text[:len(text)-len(word)]
		word, text, _ = strings.Cut(word, " ")
		if text != "" {
			text = " " + text
		}
		if w := len(spaces) + Width(plain(word)); begun && used+w > columns {
			out.WriteString("\n" + indent + "  " + word)
			used = len(indent) + 2 + w - len(spaces)
		} else {
			out.WriteString(spaces + word)
			used += w
		}
		begun = true
	}
	return out.String()
}

// Ago is a duration for people, in its two largest units.
func Ago(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", max(s, 0))
	case s < 3600:
		return fmt.Sprintf("%dm", s/60)
	case s < 24*3600:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %dh", s/86400, s/3600%24)
}

// Bytes is a number of bytes for people.
func Bytes(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Count is a number of things, or "" for none.
func Count(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
