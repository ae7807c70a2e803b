package results

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Bounds of an outline.
const (
	outlineDepth   = 5   // levels below the root
	outlineMembers = 40  // of one object
	outlineNodes   = 400 // of all values
	outlineName    = 64  // bytes of the name of a member
	outlineHeads   = 60  // headings
)

// node is a value in the outline of a JSON text.
type node struct {
	pointer  string
	kind     byte
	bytes    int
	count    int // members or elements
	text     string
	children []*node
	alike    bool // the other elements of an array are of the same kind as its child
}

// outlineJSON returns the structure of a value in lines, each with a JSON Pointer and what is
// there, in at most max bytes. Of an array it has the first element. If there is no room for all
// levels, the deep ones are left out.
func outlineJSON(v wire.Value, pointer string, max int) string {
	if k := v.Kind(); k != '{' && k != '[' {
		return ""
	}
	left := outlineNodes
	root := grow(v, pointer, &left)
	for depth := outlineDepth; depth > 0; depth-- {
		if text := root.render(depth); len(text) <= max {
			return text
		}
	}
	return cutLines(root.render(1), max)
}

// grow makes the nodes of a value and below it, level by level, so that a wide value does not
// hide its neighbors.
func grow(v wire.Value, pointer string, left *int) *node {
	type open struct {
		*node
		v wire.Value
	}
	root := &node{pointer: pointer}
	level := []open{{root, v}}
	for depth := 0; len(level) > 0; depth++ {
		var below []open
		for _, o := range level {
			o.describe(o.v)
			add := func(v wire.Value, step string) {
				c := &node{pointer: o.pointer + "/" + step}
				o.children = append(o.children, c)
				below = append(below, open{c, v})
				*left--
			}
			deeper := depth < outlineDepth
			switch o.kind {
			case '{':
				for m := range o.v.Members() {
					o.count++
					if deeper && *left > 0 && o.count <= outlineMembers {
						add(m.Value, showName(m.Key))
					}
				}
			case '[':
				o.alike = true
				for el := range o.v.Elements() {
					o.count++
					if o.count == 1 && deeper && *left > 0 {
						add(el, "0")
					}
					o.alike = o.alike && (len(o.children) == 0 || el.Kind() == below[len(below)-1].v.Kind())
				}
			}
		}
		level = below
	}
	return root
}

// describe sets what a line says of a value that is not a container.
func (n *node) describe(v wire.Value) {
	n.kind, n.bytes = v.Kind(), len(v.Raw())
	switch n.kind {
	case '"':
		if n.bytes <= 34 && bytes.IndexByte(v.Raw(), '\\') < 0 && isShown(v.Raw()) {
			n.text = "string " + string(v.Raw())
		} else {
			n.text = fmt.Sprintf("string, %d bytes", n.bytes-2)
		}
	case '0':
		n.text = "number " + plaintext.Clip(string(v.Raw()), 32)
	case 'n':
		n.text = "null"
	case 't', 'f':
		n.text = string(v.Raw())
	}
}

// render returns the lines of a node and of those at most depth levels below it.
func (n *node) render(depth int) string {
	var b strings.Builder
	n.write(&b, depth)
	return b.String()
}

func (n *node) write(b *strings.Builder, depth int) {
	name := n.pointer
	if name == "" {
		name = `""`
	}
	b.WriteString(name)
	b.WriteString(": ")
	switch n.kind {
	case '{':
		fmt.Fprintf(b, "object, %d %s, %d bytes\n", n.count, plural(n.count, "member"), n.bytes)
	case '[':
		fmt.Fprintf(b, "array, %d %s", n.count, plural(n.count, "element"))
		if n.alike && len(n.children) > 0 && n.count > 1 {
			b.WriteString(", all like the first")
			b.WriteString(map[byte]string{'{': ": objects", '[': ": arrays", '"': ": strings", '0': ": numbers"}[n.children[0].kind])
		}
		fmt.Fprintf(b, ", %d bytes\n", n.bytes)
	default:
		b.WriteString(n.text)
		b.WriteByte('\n')
	}
	if depth == 0 {
		return
	}
	for _, c := range n.children {
		c.write(b, depth-1)
	}
	if n.kind == '{' && len(n.children) < n.count && len(n.children) > 0 {
		fmt.Fprintf(b, "%s/…: %d more %s\n", n.pointer, n.count-len(n.children), plural(n.count-len(n.children), "member"))
	}
}

// showName returns the name of a member as a step of a pointer. A name that is long or has
// characters that are not seen is shown as it is written in the JSON, and clipped.
func showName(key wire.Value) string {
	name := key.Raw()
	name = name[1 : len(name)-1]
	if len(name) <= outlineName && bytes.IndexByte(name, '\\') < 0 && isShown(name) {
		return stepEncoder.Replace(string(name))
	}
	return plaintext.Line(stepEncoder.Replace(string(name)), outlineName)
}

// isShown reports whether a reader sees every character of a text.
func isShown(text []byte) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if !unicode.IsPrint(r) || plaintext.IsInvisible(r) {
			return false
		}
		text = text[n:]
	}
	return true
}

// outlineHeadings returns the headings of a Markdown text with the numbers of their lines, in at
// most max bytes; "" if there are fewer than two.
func outlineHeadings(text []byte, max int) string {
	var b strings.Builder
	heads, fenced := 0, false
	for n := 1; len(text) > 0 && heads < outlineHeads && b.Len() <= max; n++ {
		var line []byte
		line, text = cutLine(text)
		if bytes.HasPrefix(line, []byte("```")) || bytes.HasPrefix(line, []byte("~~~")) {
			fenced = !fenced
			continue
		}
		marks := 0
		for marks < len(line) && line[marks] == '#' {
			marks++
		}
		if fenced || marks == 0 || marks > 6 || marks == len(line) || line[marks] != ' ' {
			continue
		}
		heads++
		fmt.Fprintf(&b, "line %d: %s\n", n, plaintext.Line(string(line[:min(len(line), 160)]), 120))
	}
	if heads < 2 {
		return ""
	}
	return cutLines(b.String(), max)
}

// outlineParts returns a line about each part of a document, in at most max bytes.
func (d *Document) outlineParts(most int) string {
	var b strings.Builder
	line, at := 1, 0
	for i := range d.Parts {
		p := &d.Parts[i]
		line += bytes.Count(d.Text[at:p.Start], newline)
		at = p.Start
		b.WriteString("part " + strconv.Itoa(i+1) + ": " + p.Kind)
		if p.URI != "" {
			b.WriteString(" " + plaintext.Line(p.URI, 160))
		}
		if p.MIMEType != "" || p.Blob != nil || p.JSON {
			b.WriteString(", " + plaintext.Line(p.mimeType(), 64))
		}
		if p.Blob != nil {
			fmt.Fprintf(&b, ", a blob of %d %s\n", len(p.Blob), plural(len(p.Blob), "byte"))
		} else {
			fmt.Fprintf(&b, ", %d %s, lines %d-%d\n", p.End-p.Start, plural(p.End-p.Start, "byte"), line, line+max(countLines(d.text(p))-1, 0))
		}
		if b.Len() > most {
			break
		}
	}
	return cutLines(b.String(), most)
}

// outline returns the structure of a document in at most max bytes, "" for a text without any.
func (d *Document) outline(most int) string {
	if len(d.Parts) > 1 {
		return d.outlineParts(most)
	}
	p := &d.Parts[0]
	switch text := d.text(p); {
	case p.Blob != nil:
		return d.outlineParts(most)
	case p.JSON:
		return outlineJSON(wire.ValueOf(text), "", most)
	default:
		return outlineHeadings(text, most)
	}
}

// cutLines returns the whole lines at the beginning of a text, and a last line with an ellipsis
// if some were cut off.
func cutLines(text string, max int) string {
	if len(text) <= max {
		return text
	}
	const more = "…\n"
	n := strings.LastIndexByte(plaintext.Truncate(text, max-len(more)), '\n') + 1
	return text[:n] + more
}
