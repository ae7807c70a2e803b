package config

import (
	"regexp"
	"strconv"
)

// path says which key a node stands under: in the words of the file, for
// errors, and as a pattern of the schema, for its tables.
type path struct {
	text, pattern string
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// key is the path of a key of a mapping; name is what the schema calls it.
func (p path) key(written, name string) path {
	if !plainKey.MatchString(written) {
		written = show(written)
	}
	return path{text: joinPattern(p.text, written), pattern: joinPattern(p.pattern, name)}
}

// item is the path of an element of a list.
func (p path) item(i int) path {
	return path{text: p.text + "[" + strconv.Itoa(i) + "]", pattern: p.pattern + "[]"}
}

// show quotes text of a file for an error, within a bound.
func show(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}
