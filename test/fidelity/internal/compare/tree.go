package compare

import (
	"encoding/json"
	"fmt"
	"strings"
)

// node is a value with its position in the text.
type node struct {
	start, end int
	object     bool
	members    []member
	array      bool
	elements   []*node
}

// member is a member of an object. Its key is the raw text with quotes and escapes.
type member struct {
	key   string
	start int
	value *node
}

func (m member) name() string { return strings.Trim(m.key, `"`) }

// parse parses a valid JSON text.
func parse(text string) *node {
	if !json.Valid([]byte(text)) {
		panic(fmt.Sprintf("no valid JSON: %.300s", text))
	}
	p := parser{text: text}
	p.space()
	return p.value()
}

type parser struct {
	text string
	at   int
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// skip consumes a character and the space around it, if the character comes next.
func (p *parser) skip(c byte) bool {
	p.space()
	if p.text[p.at] != c {
		return false
	}
	p.at++
	p.space()
	return true
}

func (p *parser) value() *node {
	n := &node{start: p.at}
	switch p.text[p.at] {
	case '{':
		n.object = true
		for p.skip('{'); !p.last('}'); p.skip(',') {
			m := member{start: p.at}
			p.str()
			m.key = p.text[m.start:p.at]
			p.skip(':')
			m.value = p.value()
			n.members = append(n.members, m)
		}
	case '[':
		n.array = true
		for p.skip('['); !p.last(']'); p.skip(',') {
			n.elements = append(n.elements, p.value())
		}
	case '"':
		p.str()
	default:
		for p.at < len(p.text) && strings.IndexByte(" \t\r\n,]}", p.text[p.at]) < 0 {
			p.at++
		}
	}
	n.end = p.at
	return n
}

// last consumes a closing bracket and reports whether there was one.
func (p *parser) last(c byte) bool {
	p.space()
	if p.text[p.at] != c {
		return false
	}
	p.at++
	return true
}

func (p *parser) str() {
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
}
