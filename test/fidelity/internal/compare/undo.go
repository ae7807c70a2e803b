package compare

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Change is one difference: a value that was replaced, a member that was added (From is "") or one that was taken away (To is "").
type Change struct {
	Path     string // such as content/2/uri; keys as they are spelled, a slash in one is doubled
	From, To string // texts of the value
}

// Undo returns what got becomes when its differences from sent are undone, and these differences in the order of the text.
func Undo(sent, got string) (undone string, changes []Change) {
	u := undoer{sent: sent, got: got}
	u.values("", parse(sent), parse(got))
	return u.undone(), u.changes
}

type undoer struct {
	sent, got string
	changes   []Change
	cuts      []cut
}

// cut puts a text in the place of a piece of got.
type cut struct {
	start, end int
	with       string
}

func (u *undoer) values(path string, a, b *node) {
	from, to := u.sent[a.start:a.end], u.got[b.start:b.end]
	switch {
	case from == to:
	case a.object && b.object:
		u.objects(path, a, b)
	case a.array && b.array && len(a.elements) == len(b.elements):
		for i := range a.elements {
			u.values(join(path, fmt.Sprint(i)), a.elements[i], b.elements[i])
		}
	default:
		u.changes = append(u.changes, Change{path, from, to})
		u.cuts = append(u.cuts, cut{b.start, b.end, from})
	}
}

func (u *undoer) objects(path string, a, b *node) {
	i, j := 0, 0
	for i < len(a.members) || j < len(b.members) {
		switch {
		case i < len(a.members) && j < len(b.members) && a.members[i].key == b.members[j].key:
			u.values(join(path, a.members[i].name()), a.members[i].value, b.members[j].value)
			i++
			j++
		case j < len(b.members) && !has(a.members[i:], b.members[j].key):
			m := b.members[j]
			u.changes = append(u.changes, Change{join(path, m.name()), "", u.got[m.value.start:m.value.end]})
			start, end := spanOf(u.got, b, j)
			u.cuts = append(u.cuts, cut{start, end, ""})
			j++
		default:
			m := a.members[i]
			u.changes = append(u.changes, Change{join(path, m.name()), u.sent[m.value.start:m.value.end], ""})
			u.cuts = append(u.cuts, u.insertion(a, b, i, j))
			i++
		}
	}
}

// insertion puts the member i of a before the member j of b.
func (u *undoer) insertion(a, b *node, i, j int) cut {
	m := a.members[i]
	if i > 0 && j > 0 {
		at := b.members[j-1].value.end
		return cut{at, at, u.sent[a.members[i-1].value.end:m.value.end]}
	}
	// All before it are gone too: their insertions stand at the same place, before this one.
	at := u.front(a, b)
	return cut{at, at, u.sent[m.start:u.follower(a, i)]}
}

// follower is where the next member begins, or where the last one ends.
func (u *undoer) follower(a *node, i int) int {
	if i+1 < len(a.members) {
		return a.members[i+1].start
	}
	return a.members[i].value.end
}

// front is where the first member of b begins, or would begin if it were written as in a.
func (u *undoer) front(a, b *node) int {
	if len(b.members) > 0 {
		return b.members[0].start
	}
	return b.start + a.members[0].start - a.start
}

// spanOf is the piece of text that a member takes up with the comma before it or, if it is the first, with the one behind.
func spanOf(text string, n *node, i int) (start, end int) {
	m := n.members[i]
	switch {
	case i > 0:
		before := n.members[i-1].value.end
		return before + strings.IndexByte(text[before:], ','), m.value.end
	case len(n.members) > 1:
		return m.start, n.members[1].start
	default:
		return m.start, m.value.end
	}
}

func (u *undoer) undone() string {
	sort.SliceStable(u.cuts, func(i, j int) bool { return u.cuts[i].start < u.cuts[j].start })
	var out strings.Builder
	at := 0
	for _, c := range u.cuts {
		if c.start > at {
			out.WriteString(u.got[at:c.start])
		}
		out.WriteString(c.with)
		at = max(at, c.end) // members that were added one after another may share a comma
	}
	out.WriteString(u.got[at:])
	return out.String()
}

// Without returns an object's text without those members, each with its comma, and their values by name.
func Without(object string, names ...string) (rest string, taken map[string]string) {
	taken = map[string]string{}
	for _, name := range names {
		n := parse(object)
		for i, m := range n.members {
			if m.name() == name {
				taken[name] = object[m.value.start:m.value.end]
				start, end := spanOf(object, n, i)
				object = object[:start] + object[end:]
				break
			}
		}
	}
	return object, taken
}

// At returns the text of the value at a path of member names and indices, "" when there is none.
func At(text string, path ...string) string {
	n := parse(text)
	for _, step := range path {
		var next *node
		for _, m := range n.members {
			if m.name() == step {
				next = m.value
				break
			}
		}
		if i, err := strconv.Atoi(step); err == nil && i < len(n.elements) {
			next = n.elements[i]
		}
		if next == nil {
			return ""
		}
		n = next
	}
	return text[n.start:n.end]
}

// Elements returns the texts of an array's elements.
func Elements(array string) []string {
	var out []string
	for _, el := range parse(array).elements {
		out = append(out, array[el.start:el.end])
	}
	return out
}

// Keys returns the names of an object's members, as they are spelled.
func Keys(object string) []string {
	var out []string
	for _, m := range parse(object).members {
		out = append(out, m.name())
	}
	return out
}

func has(members []member, key string) bool {
	for _, m := range members {
		if m.key == key {
			return true
		}
	}
	return false
}

func join(path, name string) string {
	name = strings.ReplaceAll(name, "/", "//")
	if path == "" {
		return name
	}
	return path + "/" + name
}
