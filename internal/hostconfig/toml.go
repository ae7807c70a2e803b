package hostconfig

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlDocument is a TOML file.
type tomlDocument struct {
	data    []byte
	decoded map[string]any
	key     string
}

func parseTOML(data []byte, key string) (document, error) {
	d := &tomlDocument{data: data, key: key, decoded: make(map[string]any)}
	if err := toml.Unmarshal(data, &d.decoded); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return nil, &SyntaxError{line, column, "not valid TOML: " + strings.TrimPrefix(at.Error(), "toml: ") + "; correct this first"}
		}
		return nil, fmt.Errorf("not valid TOML: %w", err)
	}
	return d, nil
}

func (d *tomlDocument) whole() map[string]any { return d.decoded }

func (d *tomlDocument) servers() (map[string]any, error) {
	list, found := d.decoded[d.key]
	if !found {
		return nil, nil
	}
	servers, ok := list.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a table, [%s.NAME]", d.key, d.key)
	}
	return servers, nil
}

// names leaves out the servers of an inline table, to which nothing is added.
func (d *tomlDocument) names() (all []string) {
	p := unstable.Parser{}
	p.Reset(d.data)
	for p.NextExpression() {
		if e := p.Expression(); e.Kind == unstable.Table {
			if path := pathOf(e); len(path) >= 2 && path[0] == d.key && !slices.Contains(all, path[1]) {
				all = append(all, path[1])
			}
		}
	}
	return all
}

// pathOf returns the key of an expression.
func pathOf(e *unstable.Node) (path []string) {
	for keys := e.Key(); keys.Next(); {
		path = append(path, string(keys.Node().Data))
	}
	return path
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func quoteKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return quoteTOML(name)
}

// quoteTOML is a basic string of TOML, which escapes as JSON does, except for the delete character.
func quoteTOML(s string) string { return strings.ReplaceAll(quoteJSON(s), "\x7f", `\u007f`) }

// add appends a table. No table can be appended to a list that is an inline table; the caller notices that when
// it parses the result.
func (d *tomlDocument) add(name string, members []member) ([]byte, error) {
	eol := d.eol()
	var b strings.Builder
	b.Write(d.data)
	if text := bytes.TrimRight(d.data, " \t"); len(text) > 0 {
		if text[len(text)-1] != '\n' {
			b.WriteString(eol)
		}
		b.WriteString(eol)
	}
	b.WriteString(d.table(name, members))
	return []byte(b.String()), nil
}

func (d *tomlDocument) eol() string {
	if bytes.Contains(d.data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// table writes an entry.
func (d *tomlDocument) table(name string, members []member) string {
	eol := d.eol()
	var b strings.Builder
	b.WriteString("[" + d.key + "." + quoteKey(name) + "]" + eol)
	for _, m := range members {
		switch v := m.value.(type) {
		case string:
			b.WriteString(m.key + " = " + quoteTOML(v) + eol)
		case []string:
			quoted := make([]string, len(v))
			for i, s := range v {
				quoted[i] = quoteTOML(s)
			}
			b.WriteString(m.key + " = [" + strings.Join(quoted, ", ") + "]" + eol)
		}
	}
	return b.String()
}

// replace puts the new table in the place of the first one of the entry.
func (d *tomlDocument) replace(name string, members []member) ([]byte, error) {
	return d.cut(name, d.table(name, members))
}

// remove removes the tables of an entry: each from its header to its last key. Comments that follow belong to the
// next table, and stay.
func (d *tomlDocument) remove(name string, _ bool) ([]byte, error) { return d.cut(name, "") }

// cut is remove with a text in the place of the first table.
func (d *tomlDocument) cut(name, text string) ([]byte, error) {
	starts, own, err := d.expressions(name)
	if err != nil {
		return nil, err
	}
	edits := edits{}
	for i := 0; i < len(starts); i++ {
		if !own[i] {
			continue
		}
		from := bytes.LastIndexByte(d.data[:starts[i]], '\n') + 1
		for i+1 < len(starts) && own[i+1] {
			i++
		}
		to := len(d.data)
		if i+1 < len(starts) {
			to = bytes.LastIndexByte(d.data[:starts[i+1]], '\n') + 1
		}
		// A blank line after the table stays.
		to = from + len(bytes.TrimRight(d.data[from:to], " \t\r\n"))
		if n := bytes.IndexByte(d.data[to:], '\n'); n >= 0 {
			to += n + 1
		} else {
			to = len(d.data)
		}
		if text != "" {
			edits.replace(from, to, text)
			text = ""
			continue
		}
		// The blank line before the table goes with it.
		if before := bytes.TrimSuffix(d.data[:from], []byte("\r\n")); len(before) < from && bytes.HasSuffix(before, []byte("\n")) {
			from = len(before)
		} else if before := bytes.TrimSuffix(d.data[:from], []byte("\n")); len(before) < from && bytes.HasSuffix(before, []byte("\n")) {
			from = len(before)
		}
		edits.replace(from, to, "")
	}
	return edits.apply(d.data), nil
}

// expressions returns the offset at which each expression of the file begins (a key, a header of a table or a
// comment), and whether it belongs to an entry.
func (d *tomlDocument) expressions(name string) (starts []int, own []bool, err error) {
	p := unstable.Parser{KeepComments: true}
	p.Reset(d.data)
	within := false
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Comment:
			if _, alone := lineIndent(d.data, int(e.Raw.Offset)); alone {
				starts, own = append(starts, int(e.Raw.Offset)), append(own, false)
			}
		case unstable.Table, unstable.ArrayTable:
			keys, path := e.Key(), pathOf(e)
			keys.Next()
			start := bytes.LastIndexByte(d.data[:keys.Node().Raw.Offset], '\n') + 1
			within = len(path) >= 2 && path[0] == d.key && path[1] == name
			starts, own = append(starts, start), append(own, within)
		case unstable.KeyValue:
			keys := e.Key()
			keys.Next()
			starts, own = append(starts, int(keys.Node().Raw.Offset)), append(own, within)
		}
	}
	return starts, own, p.Error()
}
