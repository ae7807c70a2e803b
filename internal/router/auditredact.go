package router

import (
	"strings"

	"mcpgateway/internal/wire"
)

// Path names values in arguments: the keys that lead to them, from the outermost.
// "*" stands for any key and for every element of a list, "**" for any number of
// keys, none included.
type Path []string

// ParsePath reads a path whose parts are separated by dots.
func ParsePath(text string) Path { return strings.Split(text, ".") }

// redacted replaces the values that a path covers.
const redacted = `"[redacted]"`

// redact returns the arguments without the values that the paths cover. It ignores case, because
// hiding too much is better than recording a secret whose name is spelled differently.
func redact(arguments wire.Raw, paths []Path) wire.Raw {
	if len(paths) == 0 {
		return arguments
	}
	e := wire.NewEdit(arguments)
	redactBelow(e, e.Root(), paths)
	return e.Bytes()
}

// redactBelow replaces the values in v that the paths cover.
func redactBelow(e *wire.Edit, v wire.Value, paths []Path) {
	step := func(key string, inside wire.Value) {
		var next []Path
		for _, p := range paths {
			next = p.after(key, next)
		}
		for _, p := range next {
			if p.covers() {
				e.Replace(inside, wire.Raw(redacted))
				return
			}
		}
		if len(next) > 0 {
			redactBelow(e, inside, next)
		}
	}
	for m := range v.Members() {
		step(m.Key.Str(), m.Value)
	}
	for el := range v.Elements() {
		step("*", el)
	}
}

// covers reports whether the path ends here.
func (p Path) covers() bool {
	for _, part := range p {
		if part != "**" {
			return false
		}
	}
	return true
}

// after appends to next the rest of the path behind a key. An element of a list has the key
// "*".
func (p Path) after(key string, next []Path) []Path {
	if len(p) == 0 {
		return next
	}
	switch first := p[0]; {
	case first == "**":
		next = append(next, p) // it matches this key, and perhaps more
		return p[1:].after(key, next)
	case first == "*", strings.EqualFold(first, key):
		return append(next, p[1:])
	}
	return next
}
