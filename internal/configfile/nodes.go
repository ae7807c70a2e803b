package configfile

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// maxValues bounds how many values a file may have after its aliases and merges
// are expanded. A file of MaxSize bytes without any has fewer in practice.
const maxValues = 200_000

// maxMerges bounds the depth of merges.
const maxMerges = 32

// Report collects the errors and warnings of a configuration, whose parts may be in several
// files.
type Report struct {
	Errors   Errors
	Warnings []Warning
	left     int // values that may still be visited
}

// NewReport returns an empty report.
func NewReport() *Report { return &Report{left: maxValues} }

// Reader visits the nodes of one file and reports errors under its name.
type Reader struct {
	File string // the name in errors
	*Report
}

// Errorf reports an error at a node.
func (r Reader) Errorf(at *yaml.Node, p Path, format string, args ...any) {
	if r.left < 0 {
		return
	}
	r.Errors = append(r.Errors, &Error{r.File, at.Line, at.Column, p.Text, fmt.Sprintf(format, args...)})
}

// Warnf reports a warning at a node.
func (r Reader) Warnf(at *yaml.Node, p Path, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{r.File, at.Line, at.Column, p.Text, fmt.Sprintf(format, args...)})
}

// Spend counts one visited value, and reports whether it is within the bound. The end of the
// bound is the last error that is reported: later ones would only follow from the values that are
// missing.
func (r Reader) Spend(at *yaml.Node) bool {
	if r.left == 0 {
		r.Errorf(at, Path{}, "the aliases of this file expand to more than %d values", maxValues)
	}
	r.left--
	return r.left >= 0
}

// Pair is one key of a mapping with its value, aliases resolved.
type Pair struct {
	Name       string
	Key, Value *yaml.Node
}

// IsEmpty reports whether the value is missing, null or an empty mapping.
func (p Pair) IsEmpty() bool {
	return p.Value == nil || IsNull(p.Value) || p.Value.Kind == yaml.MappingNode && len(p.Value.Content) == 0
}

// Pairs returns the keys of a mapping in file order, merged keys (<<) last. Null is an empty
// mapping; any other kind of value is reported.
func (r Reader) Pairs(n *yaml.Node, p Path) []Pair {
	if IsNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.Errorf(n, p, "must be a mapping, not %s", KindOf(n))
		return nil
	}
	return r.collect(nil, n, p, make(map[string]*yaml.Node), 0)
}

// collect appends the keys of one mapping that no earlier mapping has; seen holds the keys so far.
func (r Reader) collect(pairs []Pair, n *yaml.Node, p Path, seen map[string]*yaml.Node, depth int) []Pair {
	if depth > maxMerges {
		r.Errorf(n, p, "merges lead into one another more than %d times", maxMerges)
		return pairs
	}
	var merges []*yaml.Node
	own := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := Resolve(n.Content[i]), Resolve(n.Content[i+1])
		if !r.Spend(key) {
			return pairs
		}
		if key.Kind != yaml.ScalarNode {
			r.Errorf(key, p, "a key must be a plain word, not %s", KindOf(key))
			continue
		}
		if key.Tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if first := own[key.Value]; first != nil {
			r.Errorf(key, p.Key(key.Value, key.Value), "is here twice; the first is at %d:%d", first.Line, first.Column)
			continue
		}
		own[key.Value] = key
		if seen[key.Value] == nil {
			seen[key.Value] = key
			pairs = append(pairs, Pair{key.Value, key, value})
		}
	}
	for _, m := range merges {
		pairs = r.merge(pairs, m, p, seen, depth)
	}
	return pairs
}

// merge appends the keys of the value of a <<: a mapping, or a list of mappings.
func (r Reader) merge(pairs []Pair, n *yaml.Node, p Path, seen map[string]*yaml.Node, depth int) []Pair {
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	for _, s := range sources {
		s = Resolve(s)
		if !r.Spend(s) {
			return pairs
		}
		if s.Kind != yaml.MappingNode {
			r.Errorf(s, p, "<< must name a mapping or a list of them, not %s", KindOf(s))
			continue
		}
		pairs = r.collect(pairs, s, p, seen, depth+1)
	}
	return pairs
}

// Resolve follows an alias. The node of an anchor is never an alias itself.
func Resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Child is the value of a key of a mapping, nil if there is no such key or no mapping.
func Child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return Resolve(n.Content[i+1])
		}
	}
	return nil
}

// IsNull reports whether a node is null.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// KindOf names the kind of a node, for an error about the kind that it should have.
func KindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case IsNull(n):
		return "empty"
	case n.Tag == "!!int":
		return "a number"
	case n.Tag == "!!float":
		return "a fraction"
	case n.Tag == "!!bool":
		return "a boolean"
	}
	return "a string"
}

// PosOf is the position of a node.
func PosOf(n *yaml.Node) Pos { return Pos{n.Line, n.Column} }
