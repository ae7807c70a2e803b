package configfile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// failure is an error of the YAML library.
type failure struct {
	// Line counts from 1, and is 0 if the library names none. In errors of the structure, except of node content and
	// of the start of a document, it is where the surrounding mapping or list begins.
	line int
	msg  string
}

var (
	yamlLine = regexp.MustCompile(`^line ([0-9]+): `)
	// yamlStructure matches the errors whose lines the library counts from 0.
	yamlStructure = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or|<document start>)|^found undefined tag handle`)
	// yamlUnclosed matches the error of a list or mapping in brackets that has no end.
	yamlUnclosed = regexp.MustCompile(`^did not find expected ',' or '([\]}])'`)
	// yamlMisplaced matches the errors of lines whose indentation may be wrong.
	yamlMisplaced = regexp.MustCompile(`^did not find expected (key|'-' indicator|<document start>)|^mapping values are not allowed`)
	// yamlQuotedAnchor matches a quotation mark before what the library takes for an anchor.
	yamlQuotedAnchor = regexp.MustCompile(`["'][*&]`)
	yamlAnchor       = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// failureOf is the error of a file or of its beginning, the zero failure if there is none. For an error on the first
// line of the input the library names no line, or another one, so it gets a line break in front.
func failureOf(data []byte) failure {
	_, _, err := documents(append([]byte("\n"), bytes.TrimPrefix(data, []byte("\ufeff"))...))
	if err == nil {
		return failure{}
	}
	f := failure{msg: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(f.msg); m != nil {
		f.line, _ = strconv.Atoi(m[1])
		f.msg = f.msg[len(m[0]):]
		if !yamlStructure.MatchString(f.msg) {
			f.line--
		}
	}
	return f
}

// yamlError is an error of the YAML library with its position, in words of this package.
func yamlError(data []byte, err error) *Error {
	f := failureOf(data)
	if f.msg == "" { // only without the line break
		f.msg = strings.TrimPrefix(err.Error(), "yaml: ")
	}
	if m := yamlAnchor.FindStringSubmatch(f.msg); m != nil {
		if at := bytes.Index(data, []byte("*"+m[1])); at >= 0 {
			f.line = 1 + bytes.Count(data[:at], []byte("\n"))
		}
	}
	if strings.HasSuffix(f.msg, "expected node content") {
		// At the end of the file the library names its last line. A value there makes it name the bracket that is open.
		if open := failureOf(append(slices.Clone(data), "\nx"...)); yamlUnclosed.MatchString(open.msg) {
			f = open
		}
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	f.line = min(max(f.line, 1), len(lines))
	if yamlMisplaced.MatchString(f.msg) && len(data) <= MaxSize {
		if e := misplaced(data, lines, f); e != nil {
			return e
		}
	}
	line := string(lines[f.line-1])
	e := &Error{Line: f.line, Col: 1 + len(line) - len(strings.TrimLeft(line, " \t")), Msg: "not valid YAML: " + f.msg}
	unclosed := yamlUnclosed.FindStringSubmatch(f.msg)
	if at, tab := tabIndent(lines[f.line-1:]); at >= 0 && strings.HasPrefix(f.msg, "found ") {
		e.Line, e.Col, e.Msg = e.Line+at, tab+1, "not valid YAML: a TAB indents this line; use spaces"
	} else if unclosed != nil {
		e.Msg = fmt.Sprintf("not valid YAML: a %s that is opened here is not closed by %s, or a comma is missing in it", openedBy[unclosed[1]], unclosed[1])
	} else if strings.Contains(f.msg, "cannot start any token") && len(data) <= MaxSize && line != "" {
		start := len(bytes.Join(lines[:f.line-1], nil))
		stop := stopIn(data, start, len(line), f)
		c, _ := utf8.DecodeRune(data[stop:])
		e.Col, e.Msg = posAt(data, stop).Col, fmt.Sprintf("not valid YAML: no value begins with %c; put it in quotes", c)
	} else if words := yamlWords(f.msg); words != "" {
		e.Msg = "not valid YAML: " + words
		if yamlQuotedAnchor.MatchString(line) && strings.Contains(f.msg, "alphabetic or numeric character") {
			e.Msg += "; here, a quotation mark before it is missing or too many"
		}
	} else if at := bytes.IndexFunc(data, forbidden); at >= 0 && strings.HasPrefix(f.msg, "control characters") {
		pos := posAt(data, at)
		e.Line, e.Col, e.Msg = pos.Line, pos.Col, fmt.Sprintf("not valid YAML: a control character (0x%02x) stands here; remove it, or write it as an escape in double quotes", data[at])
	}
	if strings.Contains(line, "${") {
		e.Msg += `; a value with ${…} needs quotes inside { } and [ ]`
	}
	return e
}

// misplaced is the error of a line that belongs to none of the mappings and lists that are open above it, at the place
// where the parser stopped. It is nil if another text describes the error better.
//
// The library does not name that place. The parser reads from left to right, so the shortest beginning of the file with
// the same error ends there.
func misplaced(data []byte, lines [][]byte, f failure) *Error {
	ends := make([]int, len(lines)) // offsets
	for i, line := range lines {
		ends[i] = len(line)
		if i > 0 {
			ends[i] += ends[i-1]
		}
	}
	at := sort.Search(len(lines), func(i int) bool { return failureOf(data[:ends[i]]) == f })
	if at == len(lines) || len(bytes.TrimSpace(lines[at])) == 0 {
		return nil
	}
	line := lines[at]
	start := ends[at] - len(line)
	text := bytes.TrimLeft(line, " ")
	indent := len(line) - len(text)
	e := &Error{Line: at + 1, Col: indent + 1}
	isEntry := bytes.HasPrefix(text, []byte("-")) && len(bytes.TrimLeft(text[1:], " \r\n")) < len(text)-1
	if words := indentation(data[:start], indent, isEntry, f); words != "" && !bytes.ContainsAny(text[:1], "]}") {
		e.Msg = "not valid YAML: " + words
		return e
	}
	if strings.HasPrefix(f.msg, "mapping values") {
		return nil
	}
	stop := stopIn(data, start, len(line), f)
	pos := posAt(data, stop)
	e.Line, e.Col = pos.Line, pos.Col
	switch c := data[stop]; {
	case c == ']' || c == '}':
		e.Msg = fmt.Sprintf("not valid YAML: this %c closes nothing", c)
	case strings.HasSuffix(f.msg, "<document start>"):
		e.Msg = "not valid YAML: the configuration has ended above, and something follows"
	case stop > start+indent && failureOf(data[:stop]) == failure{}:
		e.Msg = "not valid YAML: the value before this has ended, and nothing can follow it on its line; put a value with quotes or brackets in it in quotes as a whole"
	default:
		e.Msg = fmt.Sprintf("not valid YAML: %s; the parser stopped here, in what begins on line %d", f.msg, f.line)
	}
	return e
}

// stopIn returns the offset at which the parser stopped with an error, within the line of a length that begins at start.
func stopIn(data []byte, start, length int, f failure) int {
	stop := start + min(length-1, sort.Search(length, func(i int) bool { return failureOf(data[:start+i+1]) == f }))
	for stop > start && !utf8.RuneStart(data[stop]) {
		stop--
	}
	return stop
}

// indentation describes a line whose error is its indentation, "" for another error. before are the lines above it.
func indentation(before []byte, indent int, isEntry bool, f failure) string {
	above := openIn(before)
	with := func(text string) failure {
		return failureOf(slices.Concat(before, bytes.Repeat([]byte(" "), indent), []byte(text)))
	}
	col := indent + 1
	if len(above) == 0 {
		return ""
	}
	if last := above[len(above)-1]; strings.HasPrefix(f.msg, "mapping values") {
		// The line continues the text of the key or entry above it.
		if !last.plain || last.isList != isEntry || with("x: 1") != f {
			return ""
		}
		return "is indented unlike the " + last.entries() + " beside it" + describeAbove(above, col) + "; if this is text of the value there, put that in quotes"
	}
	if slices.ContainsFunc(above, func(c collection) bool { return c.col == col }) {
		// The line is indented like others, and something else than they are.
		switch {
		case isEntry && strings.HasSuffix(f.msg, "key"):
			return "a list entry stands here where a key is expected" + describeAbove(above, col)
		case !isEntry && strings.HasSuffix(f.msg, "'-' indicator") && with("- x") != f:
			return "a list entry is expected here, which begins with a - and a space" + describeAbove(above, col)
		}
		return ""
	}
	if with("x: 1") != f || with("- x") != f {
		return ""
	}
	kind := "keys"
	if around := neighbors(above, col); !slices.ContainsFunc(around, func(c collection) bool { return c.isList == isEntry }) {
		kind = around[0].entries()
	} else if isEntry {
		kind = "list entries"
	}
	return "is indented unlike the " + kind + " beside it" + describeAbove(above, col)
}

// collection is a mapping or list in block style that is open at the end of a text.
type collection struct {
	isList    bool
	col, line int  // where its last key or entry begins
	plain     bool // it ends in unquoted text that begins on this line
}

// entries says what a collection consists of.
func (c collection) entries() string {
	if c.isList {
		return "list entries"
	}
	return "keys"
}

// openIn returns the collections in block style that the next line can continue, the outermost first.
func openIn(data []byte) []collection {
	doc, second, err := documents(data)
	if err != nil || doc == nil || second != nil {
		return nil
	}
	var open []collection
	for n := doc.Content[0]; len(n.Content) > 0 && n.Style&yaml.FlowStyle == 0; n = n.Content[len(n.Content)-1] {
		switch n.Kind {
		case yaml.MappingNode:
			key, value := n.Content[len(n.Content)-2], n.Content[len(n.Content)-1]
			open = append(open, collection{col: n.Content[0].Column, line: key.Line, plain: isPlain(value) && value.Line == key.Line})
		case yaml.SequenceNode:
			if n.Anchor == "" && n.Style&yaml.TaggedStyle == 0 { // else its column is that of the anchor or tag
				entry := n.Content[len(n.Content)-1]
				open = append(open, collection{isList: true, col: n.Column, line: entry.Line, plain: isPlain(entry)})
			}
		}
	}
	return open
}

// isPlain reports whether a value is text without quotes, which the next line can continue.
func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value != "" }

// neighbors are the collections whose indentation is next to a column: the one that is indented more, and the one that
// is indented less.
func neighbors(above []collection, col int) []collection {
	var around []collection
	if i := slices.IndexFunc(above, func(c collection) bool { return c.col > col }); i >= 0 {
		around = append(around, above[i])
	}
	for _, c := range slices.Backward(above) {
		if c.col < col {
			return append(around, c)
		}
	}
	return around
}

// describeAbove says where a line and those above it begin.
func describeAbove(above []collection, col int) string {
	text := fmt.Sprintf(": it begins in column %d", col)
	for i, c := range neighbors(above, col) {
		if i == 0 {
			text += fmt.Sprintf("; above it, %s begin in column %d (line %d)", c.entries(), c.col, c.line)
		} else {
			text += fmt.Sprintf(", %s in column %d (line %d)", c.entries(), c.col, c.line)
		}
	}
	return text
}

var openedBy = map[string]string{"]": "[", "}": "{"}

// yamlWords is advice for an error of the YAML library that gives none, or "".
func yamlWords(msg string) string {
	switch {
	case strings.Contains(msg, "alphabetic or numeric character"):
		return "* and & begin the names of anchors; put a value that begins so in quotes, such as \"*\""
	case msg == "mapping values are not allowed in this context":
		return "a key and a colon where none can be; begin the line below the one that it belongs with, and put a value with a colon and a space in quotes"
	case msg == "found unexpected end of stream":
		return "a quote that is opened here is not closed"
	}
	return ""
}

// forbidden reports whether YAML forbids a character everywhere.
func forbidden(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }

// tabIndent finds the TAB that indents one of two lines, since the library may name the line before
// it. It returns -1 if no TAB does.
func tabIndent(lines [][]byte) (line, at int) {
	for i, l := range lines[:min(2, len(lines))] {
		indent := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]
		if at := bytes.IndexByte(indent, '\t'); at >= 0 {
			return i, at
		}
	}
	return -1, -1
}
