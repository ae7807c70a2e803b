package config

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// Option changes how [Load] and [Parse] read a file.
type Option func(*source)

// Finding is an error or a warning about a condition. Line and column are positions in its text and count
// from 1, columns in characters.
type Finding struct {
	Line, Col int
	Msg       string
	Warning   bool // the condition can be used nevertheless
}

// Condition is a condition and the kinds of items that its rule is about.
type Condition struct {
	Text                      string
	Tools, Resources, Prompts bool
}

// WithConditions sets the function that checks the conditions of rules, since this package does not know
// their language. Findings are reported at their positions in the file.
func WithConditions(check func(Condition) []Finding) Option {
	return func(s *source) { s.conditions = check }
}

// checkCondition checks the condition of a rule.
func (r *Rule) checkCondition(m *mapping, when configfile.Pair) {
	if strings.TrimSpace(r.When) == "" {
		if when.Value.Kind == yaml.ScalarNode && !configfile.IsNull(when.Value) {
			m.errorf("when", "must not be empty; remove it for a rule without a condition")
		}
		return
	}
	if m.d.conditions == nil {
		return
	}
	all := r.What.Tools == nil && r.What.Resources == nil && r.What.Prompts == nil
	c := Condition{r.When, all || r.What.Tools != nil, all || r.What.Resources != nil, all || r.What.Prompts != nil}
	for _, f := range m.d.conditions(c) {
		at := *when.Value
		if when.Value.Value == r.When { // else it contains an expansion
			at.Line, at.Column = within(m.d.data, when.Value, f.Line, f.Col)
		}
		p := m.path.Key("when", "when")
		if f.Warning {
			m.d.Warnf(&at, p, "%s", f.Msg)
		} else {
			m.d.Errorf(&at, p, "%s", f.Msg)
		}
	}
}

// within returns the position in the file of a character of a scalar, given its line and column in the
// text of the scalar.
func within(data []byte, n *yaml.Node, line, col int) (fileLine, fileCol int) {
	w := walker{rest: string(data), line: 1, col: 1}
	for w.rest != "" && (w.line < n.Line || w.line == n.Line && w.col < n.Column) {
		w.step()
	}
	w.open()
	text := n.Value
	for l, c := 1, 1; text != ""; {
		r, size := utf8.DecodeRuneInString(text)
		w.seek(r)
		if l == line && c == col {
			return w.line, w.col
		}
		w.take(r)
		text = text[size:]
		if c++; r == '\n' {
			l, c = l+1, 1
		}
	}
	return w.line, w.col // after the end
}

// walker walks through the text of a file in step with the value of a YAML scalar.
type walker struct {
	rest      string
	line, col int
	quote     byte // of the scalar, 0 for none
}

func (w *walker) step() {
	r, size := utf8.DecodeRuneInString(w.rest)
	w.rest = w.rest[size:]
	if w.col++; r == '\n' {
		w.line, w.col = w.line+1, 1
	}
}

func (w *walker) at(c byte) bool { return w.rest != "" && w.rest[0] == c }

func (w *walker) blank() bool {
	return w.rest != "" && strings.IndexByte(" \t\r\n", w.rest[0]) >= 0
}

// open moves to the beginning of the text of the scalar: after its anchor and tag, and after the quote
// or the line that begins a block.
func (w *walker) open() {
	for w.at('&') || w.at('!') {
		for w.rest != "" && !w.blank() {
			w.step()
		}
		for w.blank() {
			w.step()
		}
	}
	switch {
	case w.at('"') || w.at('\''):
		w.quote = w.rest[0]
		w.step()
	case w.at('|') || w.at('>'):
		for w.rest != "" && !w.at('\n') {
			w.step()
		}
	}
}

// seek moves to a character of the value, over space that YAML folds and over escaped line breaks.
func (w *walker) seek(r rune) {
	if r == ' ' || r == '\n' || r == '\t' {
		return
	}
	for w.blank() || w.quote == '"' && strings.HasPrefix(w.rest, "\\\n") {
		w.step()
	}
}

// take moves after a character of the value.
func (w *walker) take(r rune) {
	space := r == ' ' || r == '\n' || r == '\t'
	switch {
	case w.quote == '"' && w.at('\\'):
		n := 2
		if len(w.rest) > 1 {
			n += map[byte]int{'x': 2, 'u': 4, 'U': 8}[w.rest[1]]
		}
		for range n {
			w.step()
		}
	case w.quote == '\'' && strings.HasPrefix(w.rest, "''"):
		w.step()
		w.step()
	case space && !w.blank(): // folded from space that was taken already
	default:
		w.step()
	}
}
