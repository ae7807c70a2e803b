package config

import (
	"gopkg.in/yaml.v3"
)

// maxMerges bounds how deep one merge may lead to another.
const maxMerges = 32

// pair is one key of a mapping with its value, aliases resolved.
type pair struct {
	name       string
	key, value *yaml.Node
}

// isEmpty tells whether nothing was written as the value, not even a fault.
func (p pair) isEmpty() bool {
	return p.value == nil || isNull(p.value) || p.value.Kind == yaml.MappingNode && len(p.value.Content) == 0
}

// pairs are the keys of a mapping in file order, what << merges in behind them.
// Null is an empty mapping; anything else that is none is reported.
func (d *decoder) pairs(n *yaml.Node, p path) []pair {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.errorf(n, p, "must be a mapping, not %s", kindWords(n))
		return nil
	}
	return d.collect(nil, n, p, make(map[string]*yaml.Node), 0)
}

// collect appends the keys of one mapping that an earlier one does not have;
// seen holds the keys so far.
func (d *decoder) collect(pairs []pair, n *yaml.Node, p path, seen map[string]*yaml.Node, depth int) []pair {
	if depth > maxMerges {
		d.errorf(n, p, "merges lead into one another more than %d times", maxMerges)
		return pairs
	}
	var merges []*yaml.Node
	own := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		if !d.spend(key) {
			return pairs
		}
		if key.Kind != yaml.ScalarNode {
			d.errorf(key, p, "a key must be a plain word, not %s", kindWords(key))
			continue
		}
		if key.Tag == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if first := own[key.Value]; first != nil {
			d.errorf(key, p.key(key.Value, key.Value), "is here twice; the first is at %d:%d", first.Line, first.Column)
			continue
		}
		own[key.Value] = key
		if seen[key.Value] == nil {
			seen[key.Value] = key
			pairs = append(pairs, pair{key.Value, key, value})
		}
	}
	for _, m := range merges {
		pairs = d.merge(pairs, m, p, seen, depth)
	}
	return pairs
}

// merge appends what the value of a << names: a mapping, or a list of them.
func (d *decoder) merge(pairs []pair, n *yaml.Node, p path, seen map[string]*yaml.Node, depth int) []pair {
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	for _, s := range sources {
		s = resolve(s)
		if !d.spend(s) {
			return pairs
		}
		if s.Kind != yaml.MappingNode {
			d.errorf(s, p, "<< must name a mapping or a list of them, not %s", kindWords(s))
			continue
		}
		pairs = d.collect(pairs, s, p, seen, depth+1)
	}
	return pairs
}

// resolve follows an alias. An anchor's node is never an alias itself.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// kindWords says what a node is, for an error about what it should be.
func kindWords(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
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
