package compare

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Change is one difference: a replaced value, an added member (From is "") or a removed member (To is "").
type Change struct {
	Path     string // for example content/2/uri; keys in their raw spelling, with doubled slashes
	From, To string // texts of the value
}

// Undo reverts the differences of got from sent, and returns the result and the differences in the order of the text.
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

// cut replaces a piece of got by a text.
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

// insertion inserts the member i of a before the member j of b.
func (u *undoer) insertion(a, b *node, i, j int) cut {
	m := a.members[i]
	if i > 0 && j > 0 {
		at := b.members[j-1].value.end
		return cut{at, at, u.sent[a.members[i-1].value.end:m.value.end]}
	}
	// All members before it are removed too: their insertions are at the same position, before this one.
	at := u.front(a, b)
	return cut{at, at, u.sent[m.start:u.follower(a, i)]}
}

// follower returns the start of the next member, or the end of the last one.
func (u *undoer) follower(a *node, i int) int {
	if i+1 < len(a.members) {
		return a.members[i+1].start
	}
	return a.members[i].value.end
}

// front returns the start of the first member of b, or its position if b had the spacing of a.
func (u *undoer) front(a, b *node) int {
	if len(b.members) > 0 {
		return b.members[0].start
	}
	return b.start + a.members[0].start - a.start
}

// spanOf returns the span of a member with the comma before it or, for the first member, with the comma after it.
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
		at = max(at, c.end) // adjacent added members may share a comma
	}
	out.WriteString(u.got[at:])
	return out.String()
}

// Without removes members, each with its comma, from the text of an object, and returns their values by name.
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

// At returns the text of the value at a path of member names and indices, "" if there is no value.
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

// Keys returns the raw keys of an object's members.
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
