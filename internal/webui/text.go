package webui

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// functions are those of all templates.
var functions = template.FuncMap{
	"asset":   assetPath,
	"ago":     ago,
	"recent":  recent,
	"clock":   clock,
	"when":    when,
	"count":   count,
	"count64": func(n uint64) string { return count(int(min(n, math.MaxInt))) },
	"time":    func(t time.Time) string { return t.UTC().Format("15:04:05.0") },
	"seconds": seconds,
	"rate":    rate,
	"percent": percent,
	"plural":  plural,
	"counted": countedOf,
	"inc":     func(n int) int { return n + 1 },
	"last":    func(first, n int) int { return first + n - 1 },
}

// visible writes control and invisible characters as ⟨U+202E⟩, and bytes that are no UTF-8 as ⟨xFF⟩. It is for
// whole HTML: the markup of the console has no such characters but line breaks and tabs.
func visible(b []byte) []byte {
	var out []byte // nil while nothing was replaced
	before, done := rune(0), 0
	for i := 0; i < len(b); {
		if b[i] >= ' ' && b[i] < utf8.RuneSelf-1 || b[i] == '\n' || b[i] == '\t' {
			before = rune(b[i])
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		var as string
		switch {
		case r == utf8.RuneError && size == 1:
			as = fmt.Sprintf("⟨x%02X⟩", b[i])
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || plaintext.IsInvisible(r) && !joinsEmoji(before, r):
			as = fmt.Sprintf("⟨U+%04X⟩", r)
		}
		if as != "" {
			out = append(append(out, b[done:i]...), as...)
			done = i + size
		}
		before = r
		i += size
	}
	if out == nil {
		return b
	}
	return append(out, b[done:]...)
}

// joinsEmoji reports whether an invisible character only forms the emoji before it: the presentation as an emoji.
func joinsEmoji(before, r rune) bool {
	return r == '\ufe0f' && unicode.Is(unicode.So, before)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// when returns the element of a time that a person reads as text.
func when(t time.Time, text string) template.HTML {
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" title="` + clock(t) + `">` + template.HTMLEscapeString(text) + `</time>`)
}

// ago returns how long ago a time was, without the precision that would change on every look.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < 0 || d < 10*time.Second:
		return "just now"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())/10*10) + " s ago"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min ago"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h ago"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days ago"
}

// recent says how long ago a time is that is known to the hour.
func recent(now, t time.Time) string {
	if now.Sub(t) < time.Hour {
		return "in the last hour"
	}
	return ago(now, t)
}

// count writes a number with spaces between groups of three digits.
func count(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "\u202f" + s[at:]
	}
	return s
}

// seconds writes a duration in seconds with two digits of precision. A negative one is unknown.
func seconds(s float64) string {
	switch {
	case s < 0 || math.IsNaN(s):
		return "–"
	case s < 0.001:
		return digits(s*1e6) + " µs"
	case s < 1:
		return digits(s*1e3) + " ms"
	case s < 120:
		return digits(s) + " s"
	}
	return digits(s/60) + " min"
}

// rate writes how often something happens in a second.
func rate(n float64) string {
	if n > 0 && n < 0.05 {
		return "< 0.1"
	}
	return digits(n)
}

// digits writes a number that is not negative with at most one digit after the point.
func digits(n float64) string {
	if n < 9.95 && n != math.Trunc(n) {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return count(int(math.Round(n)))
}

// percent writes part of all.
func percent(part, all float64) string {
	if all == 0 {
		return "–"
	}
	switch p := 100 * part / all; {
	case p > 0 && p < 0.1:
		return "< 0.1 %"
	default:
		return digits(p) + " %"
	}
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// valueOf reads JSON of a server, which the gateway has parsed before.
func valueOf(raw []byte) wire.Value { return wire.ValueOf(wire.Raw(raw)) }

// clip bounds a text that has no place for more.
func clip(s string, bytes int) string { return plaintext.Clip(s, bytes) }
