package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// parseYAML parses the one document of a YAML file. The content may also be JSON as hosts write it,
// with comments and indented by TABs. The error has no File.
func parseYAML(data []byte) (*yaml.Node, *Error) {
	root, err := parseDocument(data)
	if err != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if root, bad := parseJSON(data); bad == nil {
			return root, nil
		}
	}
	return root, err
}

func parseDocument(data []byte) (*yaml.Node, *Error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}, nil
	} else if err != nil {
		return nil, yamlError(data, err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, &Error{Line: second.Line, Col: second.Column, Msg: "a second document begins here; a configuration is one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(data, err)
	}
	return doc.Content[0], nil
}

var (
	yamlLine = regexp.MustCompile(`^line ([0-9]+): `)
	// The library counts the lines of these errors from 0 and names the line where the surrounding
	// mapping or list begins; for node content it names the line of the error.
	yamlInside = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or)`)
	// yamlUnclosed matches the error of a list or mapping in brackets that has no end.
	yamlUnclosed = regexp.MustCompile(`^did not find expected ',' or '([\]}])'`)
	yamlAnchor   = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// yamlError adds the position to an error of the YAML library, which names the line in some of its
// errors.
func yamlError(data []byte, err error) *Error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{Line: 1, Col: 1}
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
		if yamlInside.MatchString(msg) {
			e.Line++
			if !strings.HasSuffix(msg, "node content") {
				msg += " in what begins here"
			}
		}
	} else if m := yamlAnchor.FindStringSubmatch(msg); m != nil {
		if at := bytes.Index(data, []byte("*"+m[1])); at >= 0 {
			e.Line = 1 + bytes.Count(data[:at], []byte("\n"))
		}
	}
	lines := strings.Split(string(data), "\n")
	e.Line = min(e.Line, len(lines))
	unclosed := yamlUnclosed.FindStringSubmatch(msg)
	if unclosed != nil && !strings.Contains(lines[e.Line-1], openedBy[unclosed[1]]) {
		e.Line = 1 // if it begins there, the library names the line of the error
	}
	line := lines[e.Line-1]
	e.Col = 1 + len(line) - len(strings.TrimLeft(line, " \t"))
	e.Msg = "not valid YAML: " + msg
	if at, tab := tabIndent(lines[e.Line-1:]); at >= 0 && strings.HasPrefix(msg, "found ") {
		e.Line, e.Col, e.Msg = e.Line+at, tab+1, "not valid YAML: a TAB indents this line; use spaces"
	} else if unclosed != nil {
		e.Msg = fmt.Sprintf("not valid YAML: a %s that is opened here is not closed by %s, or a comma is missing in it", openedBy[unclosed[1]], unclosed[1])
	} else if words := yamlWords(msg); words != "" {
		e.Msg = "not valid YAML: " + words
	} else if at := bytes.IndexFunc(data, forbidden); at >= 0 && strings.HasPrefix(msg, "control characters") {
		pos := posAt(data, at)
		e.Line, e.Col, e.Msg = pos.Line, pos.Col, fmt.Sprintf("not valid YAML: a control character (0x%02x) stands here; remove it, or write it as an escape in double quotes", data[at])
	}
	if strings.Contains(line, "${") {
		e.Msg += `; a value with ${…} needs quotes inside { } and [ ]`
	}
	return e
}

var openedBy = map[string]string{"]": "[", "}": "{"}

// yamlWords is advice for an error of the YAML library that gives none, or "".
func yamlWords(msg string) string {
	switch {
	case strings.Contains(msg, "cannot start any token"):
		return "no value begins with what stands here; put it in quotes"
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
func tabIndent(lines []string) (line, at int) {
	for i, l := range lines[:min(2, len(lines))] {
		indent := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
		if at := strings.IndexByte(indent, '\t'); at >= 0 {
			return i, at
		}
	}
	return -1, -1
}
