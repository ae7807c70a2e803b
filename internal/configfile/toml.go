package configfile

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
	"gopkg.in/yaml.v3"
)

// parseTOML parses a TOML file, such as the configuration of Codex, into the nodes that the same
// content has in YAML. The error has no File.
func parseTOML(data []byte) (*yaml.Node, *Error) {
	r := &tomlReader{keys: make(map[*yaml.Node]map[string]*yaml.Node), made: make(map[*yaml.Node]bool), last: Pos{1, 1}}
	root := r.mapping(Pos{1, 1})
	table := root
	r.Reset(data)
	for r.NextExpression() {
		switch e := r.Expression(); e.Kind {
		case unstable.KeyValue:
			r.put(table, e)
		case unstable.Table:
			table = r.descend(root, e.Key())
			if r.made[table] {
				keys := e.Key()
				keys.Next()
				r.fail(r.pos(keys.Node()), "the table is here twice; the first is at %v", Pos{table.Line, table.Column})
			}
			r.made[table] = true
		case unstable.ArrayTable:
			table = r.another(root, e.Key())
		}
	}
	if err := r.Error(); err != nil {
		at := Pos{1, 1}
		if pe, ok := errors.AsType[*unstable.ParserError](err); ok && pe.Highlight != nil {
			at = r.at(int(r.Range(pe.Highlight).Offset))
		}
		r.fail(at, "%v", err)
	}
	return root, r.err
}

// tomlReader converts expressions to nodes. [Reader.Pairs] reports duplicate keys later.
type tomlReader struct {
	unstable.Parser
	keys map[*yaml.Node]map[string]*yaml.Node // of each mapping
	made map[*yaml.Node]bool                  // mappings with a [header]
	err  *Error                               // the first

	// The position of offset, which hardly ever shrinks, so that lines are counted once.
	offset int
	last   Pos
}

func (r *tomlReader) mapping(at Pos) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Col}
	r.keys[n] = make(map[string]*yaml.Node)
	return n
}

func (r *tomlReader) fail(at Pos, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Line: at.Line, Col: at.Col, Msg: "not valid TOML: " + fmt.Sprintf(format, args...)}
	}
}

func (r *tomlReader) pos(n *unstable.Node) Pos { return r.at(int(n.Raw.Offset)) }

func (r *tomlReader) at(to int) Pos {
	if to < r.offset {
		r.offset, r.last = 0, Pos{1, 1}
	}
	for _, c := range string(r.Data()[r.offset:to]) {
		if r.last.Col++; c == '\n' {
			r.last = Pos{r.last.Line + 1, 1}
		}
	}
	r.offset = to
	return r.last
}

// add appends a key and its value to a mapping. at is the position of the key.
func (r *tomlReader) add(m *yaml.Node, key *unstable.Node, at Pos, value *yaml.Node) {
	name := string(key.Data)
	r.keys[m][name] = value
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: at.Line, Column: at.Col}, value)
}

// child returns the mapping below a key, or the last mapping of a list.
func (r *tomlReader) child(m *yaml.Node, key *unstable.Node) *yaml.Node {
	next := r.keys[m][string(key.Data)]
	switch {
	case next == nil:
		at := r.pos(key)
		next = r.mapping(at)
		r.add(m, key, at, next)
	case next.Kind == yaml.SequenceNode && len(next.Content) > 0:
		next = next.Content[len(next.Content)-1]
	}
	if next.Kind != yaml.MappingNode { // its keys are lost, and the error says so
		r.fail(r.pos(key), "%s has a value already, and no keys below it", Quote(string(key.Data)))
		next = r.mapping(r.pos(key))
	}
	return next
}

func (r *tomlReader) descend(m *yaml.Node, keys unstable.Iterator) *yaml.Node {
	for keys.Next() {
		m = r.child(m, keys.Node())
	}
	return m
}

// another appends a mapping to a list.
func (r *tomlReader) another(m *yaml.Node, keys unstable.Iterator) *yaml.Node {
	for keys.Next() {
		key := keys.Node()
		if !keys.IsLast() {
			m = r.child(m, key)
			continue
		}
		at, list := r.pos(key), r.keys[m][string(key.Data)]
		if list == nil {
			list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: at.Line, Column: at.Col}
			r.add(m, key, at, list)
		} else if list.Kind != yaml.SequenceNode {
			r.fail(at, "%s has a value already, and is no list of tables", Quote(string(key.Data)))
		}
		m = r.mapping(at)
		list.Content = append(list.Content, m)
	}
	return m
}

// put adds one key = value, whose key may have several parts.
func (r *tomlReader) put(m *yaml.Node, e *unstable.Node) {
	for keys := e.Key(); keys.Next(); {
		key := keys.Node()
		if !keys.IsLast() {
			m = r.child(m, key)
			continue
		}
		at := r.pos(key)
		r.add(m, key, at, r.value(e.Value(), at))
	}
}

// value converts a value. at is the position of its key.
func (r *tomlReader) value(n *unstable.Node, at Pos) *yaml.Node {
	if n.Raw.Length > 0 {
		at = r.pos(n)
	}
	scalar := func(tag string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: string(n.Data), Line: at.Line, Column: at.Col}
	}
	switch n.Kind {
	case unstable.InlineTable:
		m := r.mapping(at)
		for inside := n.Children(); inside.Next(); {
			r.put(m, inside.Node())
		}
		return m
	case unstable.Array:
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: at.Line, Column: at.Col}
		for inside := n.Children(); inside.Next(); {
			if inside.Node().Kind != unstable.Comment {
				list.Content = append(list.Content, r.value(inside.Node(), at))
			}
		}
		return list
	case unstable.Bool:
		return scalar("!!bool")
	case unstable.Integer:
		return scalar("!!int")
	case unstable.Float:
		return scalar("!!float")
	default: // a string or a time
		return scalar("!!str")
	}
}
