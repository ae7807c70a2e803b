package configfile

import (
	"regexp"
	"strconv"
)

// Path is the place of a node: Text as the file spells its keys, for errors, and Pattern as a
// schema names them, where * stands for any name and [] for any element.
type Path struct{ Text, Pattern string }

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Key is the path of a key of a mapping; name is its name in the schema.
func (p Path) Key(written, name string) Path {
	if !plainKey.MatchString(written) {
		written = Quote(written)
	}
	return Path{Text: Join(p.Text, written), Pattern: Join(p.Pattern, name)}
}

// Item is the path of an element of a list.
func (p Path) Item(i int) Path {
	return Path{Text: p.Text + "[" + strconv.Itoa(i) + "]", Pattern: p.Pattern + "[]"}
}

// Join is the pattern of a key below a parent, which is empty at the top.
func Join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// Quote quotes text of a file for an error, shortened to 60 characters.
func Quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}
