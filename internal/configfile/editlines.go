package configfile

import (
	"bytes"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// atLine is the offset of a line, which counts from 1; beyond the last line it is the end of the text.
func (e *Edit) atLine(line int) int {
	at := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(e.text[at:], '\n')
		if next < 0 {
			return len(e.text)
		}
		at += next + 1
	}
	return at
}

// line is the text of a line, without its end.
func (e *Edit) line(line int) string {
	if line < 1 || line > e.lastLine() {
		return ""
	}
	text, _, _ := strings.Cut(e.text[e.atLine(line):], "\n")
	return strings.TrimRight(text, "\r")
}

// lastLine is the number of lines.
func (e *Edit) lastLine() int {
	n := strings.Count(e.text, "\n")
	if !strings.HasSuffix(e.text, "\n") && e.text != "" {
		n++
	}
	return n
}

// eol is the end of the lines.
func (e *Edit) eol() string {
	if first, _, found := strings.Cut(e.text, "\n"); found && strings.HasSuffix(first, "\r") {
		return "\r\n"
	}
	return "\n"
}

// blank reports whether an existing line is empty.
func (e *Edit) blank(line int) bool {
	return line >= 1 && line <= e.lastLine() && strings.TrimSpace(e.line(line)) == ""
}

// comment reports whether a line is a comment, and its indentation.
func (e *Edit) comment(line int) (indent int, is bool) {
	text := e.line(line)
	rest := strings.TrimLeft(text, " \t")
	return len(text) - len(rest), strings.HasPrefix(rest, "#")
}

// contentEnd is the last line of a range that is neither blank nor a comment indented at most so far. It is the line before
// the range if there is none.
func (e *Edit) contentEnd(from, to, indent int) int {
	for line := to; line >= from; line-- {
		at, is := e.comment(line)
		if !e.blank(line) && (!is || at > indent) && !e.documentEnd(line) {
			return line
		}
	}
	return from - 1
}

// documentEnd reports whether a line ends the document.
func (e *Edit) documentEnd(line int) bool {
	return e.line(line) == "..." || strings.HasPrefix(e.line(line), "... ")
}

// lineAfter is the line of the key after a key of the file, or the line after the last one.
func (e *Edit) lineAfter(key *yaml.Node) int {
	for i := 0; i+1 < len(e.root.Content); i += 2 {
		if next := e.root.Content[i]; next.Line > key.Line {
			return next.Line
		}
	}
	last := e.lastLine()
	for line := last; line > key.Line; line-- {
		if e.documentEnd(line) {
			return line
		}
	}
	return last + 1
}

// lines is the range of lines of an entry of a section in block style; to is the line after it.
func (e *Edit) lines(s section, at int) (from, to int) {
	key := s.value.Content[2*at]
	end := e.lineAfter(s.key)
	if next := 2*at + 2; next < len(s.value.Content) {
		end = s.value.Content[next].Line
	}
	return key.Line, e.contentEnd(key.Line, end-1, key.Column-1) + 1
}

// headOf is the first line of the comment right above a key.
func (e *Edit) headOf(key *yaml.Node) int {
	line := key.Line
	for line > 1 {
		if _, is := e.comment(line - 1); !is {
			break
		}
		line--
	}
	return line
}

// inactive matches comments that are keys, such as #files: or # url: x.
var inactive = regexp.MustCompile(`^#\s*["']?[\w.-]+["']?:(\s|$)`)

// ownHead is the first line of the comment that belongs to an entry: the lines right above it, with its indentation. A
// comment that has a key may be another entry that is switched off.
func (e *Edit) ownHead(key *yaml.Node, line int) int {
	first := line
	for first > 1 {
		at, is := e.comment(first - 1)
		if !is || at != key.Column-1 {
			break
		}
		first--
	}
	for l := first; l < line; l++ {
		if inactive.MatchString(strings.TrimSpace(e.line(l))) {
			return line
		}
	}
	return first
}

// indented is a mapping in block style at an indentation.
func (e *Edit) indented(m *yaml.Node, indent, step int) string {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(max(2, step))
	_ = enc.Encode(m) // a tree of mappings, lists and strings can be encoded
	_ = enc.Close()
	var b strings.Builder
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" {
			b.WriteString(strings.Repeat(" ", indent))
		}
		b.WriteString(line + e.eol())
	}
	return b.String()
}

// inline is a mapping of one entry in flow style, without its braces.
func inline(m *yaml.Node) string {
	flow := clone(m)
	var style func(n *yaml.Node)
	style = func(n *yaml.Node) {
		n.HeadComment, n.LineComment, n.FootComment = "", "", ""
		if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
			n.Style |= yaml.FlowStyle
		}
		for _, c := range n.Content {
			style(c)
		}
	}
	style(flow)
	out, _ := yaml.Marshal(flow) // as above
	text := strings.TrimSpace(string(out))
	return strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
}

// inBraces is the range of the text of an entry of a section in flow style, with the comma that it needs. It is false if
// the text is not understood.
func (e *Edit) inBraces(s section, at int) (from, to int, ok bool) {
	begin := e.offset(s.value)
	commas, end := e.scanBraces(begin)
	n := len(s.value.Content) / 2
	switch {
	case end < 0 || len(commas) != n-1 && len(commas) != n: // the last comma may be a trailing one
		return 0, 0, false
	case at < n-1:
		return e.offset(s.value.Content[2*at]), e.offset(s.value.Content[2*at+2]), true
	}
	last := end
	for last > begin && strings.IndexByte(" \t\r\n", e.text[last-1]) >= 0 {
		last--
	}
	if len(commas) == n {
		last = commas[n-1]
	}
	if n == 1 {
		return e.offset(s.value.Content[0]), last, true
	}
	return commas[n-2], last, true
}

// scanBraces finds the commas of a mapping in flow style and its closing brace, -1 if there is none.
func (e *Edit) scanBraces(begin int) (commas []int, end int) {
	depth := 0
	for i := begin; i < len(e.text); i++ {
		switch c := e.text[i]; c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return commas, i
			}
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '\'', '"':
			i = e.quoteEnd(i)
		case '#':
			if strings.IndexByte(" \t\n", e.text[i-1]) >= 0 {
				next := strings.IndexByte(e.text[i:], '\n')
				if next < 0 {
					return nil, -1
				}
				i += next
			}
		}
	}
	return nil, -1
}

// quoteEnd is the offset of the quote that ends a quoted text, or of the opening one if it stands inside of a word.
func (e *Edit) quoteEnd(i int) int {
	quote := e.text[i]
	if i > 0 && strings.IndexByte(" \t\r\n,{[:", e.text[i-1]) < 0 {
		return i
	}
	for j := i + 1; j < len(e.text); j++ {
		switch {
		case quote == '"' && e.text[j] == '\\':
			j++
		case e.text[j] != quote:
		case quote == '\'' && j+1 < len(e.text) && e.text[j+1] == quote:
			j++
		default:
			return j
		}
	}
	return i
}
