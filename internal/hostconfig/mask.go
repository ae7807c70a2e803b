package hostconfig

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// masked is shown in place of a value.
const masked = "…"

// Mask returns the text of a host's file with its lines and keys, and without its values and comments, which may be
// secrets. The values of the entries stay.
func (h Host) Mask(text string, entries ...Entry) string {
	m := masker{toml: h.toml, shown: []string{"stdio", "http"}}
	for _, e := range entries {
		m.shown = append(append(m.shown, e.Command), e.Args...)
		if e.URL == plainURL(e.URL) {
			m.shown = append(m.shown, e.URL)
		}
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		lines[i] = m.line(line)
	}
	return strings.Join(lines, "")
}

// masker masks one line after the other.
type masker struct {
	toml   bool
	shown  []string // values that stay
	within string   // what ends the multi-line string or comment that the line begins in, "" for none
}

var (
	tableHeader = regexp.MustCompile(`^\s*\[{1,2}\s*[A-Za-z0-9_-]+\s*(?:\.\s*(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')\s*)*\]{1,2}\s*$`)
	word        = regexp.MustCompile(`"(?:[^"\\\r\n]|\\.)*"?|'[^'\r\n]*'?|//[^\r\n]*|(?s:/\*.*?\*/)|/\*[^\r\n]*|#[^\r\n]*|[^\s"'{}\[\],:=/#]+`)
	gaps        = regexp.MustCompile(masked + `(?:[\s:=/]*` + masked + `)+`)
	// quoted matches the strings and comments of a line of TOML, and the quotes that begin a multi-line string.
	quoted = regexp.MustCompile(`"""|'''|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|#[^\r\n]*`)
)

// line masks a line, which may end with a line break.
func (m *masker) line(line string) string {
	if m.toml {
		if tableHeader.MatchString(line) && m.within == "" {
			return line
		}
		if inside := m.within != ""; m.passes(line) || inside {
			return masked + strings.TrimLeft(line, strings.TrimRight(line, "\r\n"))
		}
	} else if m.within != "" { // a comment
		_, rest, ends := strings.Cut(line, m.within)
		if !ends {
			return masked + strings.TrimLeft(line, strings.TrimRight(line, "\r\n"))
		}
		end := masked + " " + m.within
		m.within = ""
		return end + m.line(rest)
	}
	var out strings.Builder
	end := 0
	for _, at := range word.FindAllStringIndex(line, -1) {
		out.WriteString(line[end:at[0]])
		out.WriteString(m.word(line[at[0]:at[1]], strings.TrimLeft(line[at[1]:], " \t")))
		end = at[1]
	}
	return gaps.ReplaceAllString(out.String()+line[end:], masked)
}

// passes follows the multi-line strings of TOML over a line, and reports whether the line has a part of one.
func (m *masker) passes(line string) (part bool) {
	for line != "" {
		if m.within != "" {
			_, rest, ends := strings.Cut(line, m.within)
			if !ends {
				return true
			}
			m.within, line, part = "", rest, true
			continue
		}
		at := quoted.FindStringIndex(line)
		if at == nil {
			return part
		}
		if text := line[at[0]:at[1]]; text == `"""` || text == "'''" {
			m.within = text
		}
		line = line[at[1]:]
	}
	return part || m.within != ""
}

// word masks one word, unless it is a key, a value that stays, or no value at all.
func (m *masker) word(text, rest string) string {
	isKey := strings.HasPrefix(rest, ":")
	if m.toml {
		isKey = strings.HasPrefix(rest, "=")
	}
	switch text[0] {
	case '"', '\'':
		if value, ok := unquoted(text); isKey || ok && slices.Contains(m.shown, value) {
			return text
		}
		return text[:1] + masked + text[:1]
	case '/':
		if !strings.HasPrefix(text, "/*") {
			return text[:2] + " " + masked
		}
		if !strings.HasSuffix(text, "*/") || len(text) < len("/**/") {
			m.within = "*/"
			return "/* " + masked
		}
		return "/* " + masked + " */"
	case '#':
		if m.toml {
			return "# " + masked
		}
	}
	if m.toml && isKey || text == "true" || text == "false" || text == "null" {
		return text
	}
	return masked
}

// unquoted is the text of a string.
func unquoted(text string) (value string, ok bool) {
	if text[0] == '\'' {
		return strings.Trim(text, "'"), true
	}
	err := json.Unmarshal([]byte(text), &value)
	return value, err == nil
}
