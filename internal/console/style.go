package console

import (
	"io"
	"os"
)

// Style highlights text. The zero Style does not.
type Style struct{ Colour bool }

// StyleOf is the style for w: with color on a terminal, unless NO_COLOR is set or TERM is dumb.
func StyleOf(w io.Writer, env func(string) (string, bool)) Style {
	if none, set := env("NO_COLOR"); set && none != "" {
		return Style{}
	}
	if term, _ := env("TERM"); term == "dumb" {
		return Style{}
	}
	return Style{Colour: IsTerminal(w)}
}

// The styles of text.
func (s Style) Good(text string) string { return s.in("32", text) }
func (s Style) Bad(text string) string  { return s.in("31", text) }
func (s Style) Warn(text string) string { return s.in("33", text) }
func (s Style) Bold(text string) string { return s.in("1", text) }
func (s Style) Dim(text string) string  { return s.in("2", text) }

func (s Style) in(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && columnsOf(f) >= 0
}

// Columns is the width of the terminal w, or 0 if w is not a terminal.
func Columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	switch n := columnsOf(f); {
	case n < 0:
		return 0
	case n == 0: // a terminal that does not know its size
		return 80
	default:
		return n
	}
}
