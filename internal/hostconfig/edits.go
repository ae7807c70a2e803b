package hostconfig

import "slices"

// edits are replacements of ranges that do not overlap.
type edits []replacement

type replacement struct {
	from, to int
	text     string
}

func (e *edits) insert(at int, text string) { e.replace(at, at, text) }

func (e *edits) replace(from, to int, text string) { *e = append(*e, replacement{from, to, text}) }

// apply returns the edited data. Insertions at the same place keep their order, and come before a replacement there.
func (e edits) apply(data []byte) []byte {
	slices.SortStableFunc(e, func(a, b replacement) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, r := range e {
		out = append(append(out, data[at:r.from]...), r.text...)
		at = r.to
	}
	return append(out, data[at:]...)
}
