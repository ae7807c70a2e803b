package results

import (
	"bytes"
	"unicode/utf8"
)

// beginning returns how many of the first max bytes of a text to show: up to the end of a line
// if one is in the last quarter, else up to the end of a JSON value or a word, else of a
// character. It returns len(text) for a shorter text.
func beginning(text []byte, max int) int {
	if len(text) <= max {
		return len(text)
	}
	n := runeStart(text, max)
	from := n - n/4
	if i := bytes.LastIndexByte(text[from:n], '\n'); i >= 0 {
		return from + i + 1
	}
	if i := bytes.LastIndexAny(text[from:n], ",;}] \t"); i >= 0 {
		return from + i + 1
	}
	return n
}

// runeStart returns the greatest index up to i at which a character begins.
func runeStart(text []byte, i int) int {
	if i >= len(text) {
		return len(text)
	}
	for back := 0; back < utf8.UTFMax && i > 0 && !utf8.RuneStart(text[i]); back++ {
		i--
	}
	return i
}

// countLines returns how many lines a text has. A last line without a line break counts.
func countLines(text []byte) int {
	n := bytes.Count(text, newline)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

var newline = []byte{'\n'}

// lineStart returns where line number n, counted from 1, begins, and len(text) if there is none.
func lineStart(text []byte, n int) int {
	at := 0
	for ; n > 1 && at < len(text); n-- {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}
