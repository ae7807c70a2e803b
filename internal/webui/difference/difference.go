package difference

import (
	"strconv"

	"mcpgateway/internal/wire"
)

// Segment is a part of a text that one side of a difference has and the other may not have.
type Segment struct {
	Text   string
	Marked bool // the other side does not have it
}

// Change is a member of a definition that differs.
type Change struct {
	Path     []string // of member names
	Kind     string   // added, removed or changed
	Was, Now []Segment
}

const (
	// maxLeaves bounds the members of a definition that are compared one by one.
	maxLeaves = 2000
	// maxLeafDepth bounds how deep members are compared one by one. Deeper values are compared as JSON.
	maxLeafDepth = 32
	// maxCells bounds the work of comparing two texts word by word.
	maxCells = 1 << 20
)

// leaf is a value in a definition that is compared as a whole.
type leaf struct {
	path   []string
	key    string // the path as one text
	text   string
	isText bool // a string of JSON, and text is what it says
}

// Compare returns the members in which two definitions differ, in the order of now; members that
// only was has come last. was may be nil. It returns the number of members that are the same, too.
func Compare(was, now wire.Raw) (changes []Change, same int) {
	before, after := leavesOf(was), leavesOf(now)
	of := make(map[string]leaf, len(before))
	for _, l := range before {
		of[l.key] = l
	}
	for _, l := range after {
		old, ok := of[l.key]
		delete(of, l.key)
		switch {
		case !ok:
			changes = append(changes, Change{Path: l.path, Kind: "added", Now: []Segment{{l.text, true}}})
		case old.text == l.text && old.isText == l.isText:
			same++
		default:
			c := Change{Path: l.path, Kind: "changed"}
			c.Was, c.Now = compareTexts(old.text, l.text)
			changes = append(changes, c)
		}
	}
	for _, l := range before {
		if _, left := of[l.key]; left {
			changes = append(changes, Change{Path: l.path, Kind: "removed", Was: []Segment{{l.text, true}}})
		}
	}
	if len(changes) == 0 { // a difference that the members do not show, such as in the escapes of a text
		c := Change{Kind: "changed"}
		c.Was, c.Now = compareTexts(string(was), string(now))
		changes = append(changes, c)
	}
	return changes, same
}

// leavesOf returns the values of a definition.
func leavesOf(definition wire.Raw) []leaf {
	if len(definition) == 0 {
		return nil
	}
	w := &leafWalk{seen: map[string]int{}}
	w.walk(wire.ValueOf(definition), nil, "")
	return w.leaves
}

type leafWalk struct {
	leaves []leaf
	seen   map[string]int // how often a path occurred
}

func (w *leafWalk) walk(v wire.Value, path []string, key string) {
	if v.Kind() == '{' && len(path) < maxLeafDepth && len(w.leaves) < maxLeaves {
		empty := true
		for m := range v.Members() {
			empty = false
			name := m.Key.Str()
			at := key + strconv.Quote(name)
			if w.seen[at]++; w.seen[at] > 1 { // a client may read either
				name += " (again)"
				at += strconv.Itoa(w.seen[at])
			}
			w.walk(m.Value, append(path[:len(path):len(path)], name), at)
		}
		if !empty {
			return
		}
	}
	text, isText := v.Text()
	if !isText {
		text = string(v.Raw())
	}
	w.leaves = append(w.leaves, leaf{path, key, text, isText})
}

// compareTexts marks the words that only one of two texts has.
func compareTexts(was, now string) (a, b []Segment) {
	x, y := wordsOf(was), wordsOf(now)
	first := 0
	for first < len(x) && first < len(y) && x[first] == y[first] {
		first++
	}
	last := 0
	for last < len(x)-first && last < len(y)-first && x[len(x)-1-last] == y[len(y)-1-last] {
		last++
	}
	keepX, keepY := commonWords(x[first:len(x)-last], y[first:len(y)-last])
	return segmentsOf(x, first, last, keepX), segmentsOf(y, first, last, keepY)
}

// wordsOf splits a text into words, spaces and single other characters.
func wordsOf(text string) []string {
	var words []string
	start, before := 0, -1
	for i, r := range text {
		class := 0
		switch {
		case r == ' ' || r == '\n' || r == '\t' || r == '\r':
			class = 1
		case r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80:
			class = 2
		}
		if i > 0 && (class != before || class == 0) {
			words = append(words, text[start:i])
			start = i
		}
		before = class
	}
	if start < len(text) {
		words = append(words, text[start:])
	}
	return words
}

// commonWords says which words of two texts belong to their longest common subsequence. Texts that are too
// long to be compared have nothing in common.
func commonWords(x, y []string) (inX, inY []bool) {
	inX, inY = make([]bool, len(x)), make([]bool, len(y))
	if len(x) == 0 || len(y) == 0 || (len(x)+1)*(len(y)+1) > maxCells {
		return inX, inY
	}
	width := len(y) + 1
	longest := make([]int32, (len(x)+1)*width) // of the rest from i and j on
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch {
		case x[i] == y[j]:
			inX[i], inY[j] = true, true
			i++
			j++
		case longest[(i+1)*width+j] >= longest[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return inX, inY
}

// segmentsOf joins words into segments. keep is about the words between the first and the last ones.
func segmentsOf(words []string, first, last int, keep []bool) []Segment {
	var out []Segment
	for i, word := range words {
		marked := i >= first && i < len(words)-last && !keep[i-first]
		if n := len(out); n > 0 && out[n-1].Marked == marked {
			out[n-1].Text += word
		} else {
			out = append(out, Segment{word, marked})
		}
	}
	return out
}
