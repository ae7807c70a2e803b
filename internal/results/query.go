package results

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Scheme is the scheme of the URIs of documents, with its colon.
const Scheme = "gateway+result:"

// Template is the URI template of documents (RFC 6570).
const Template = Scheme + "//{id}{/part}{?pointer,lines,range,grep,context}"

// maxURILength bounds the URIs that are read.
const maxURILength = 8 << 10

// Query selects a part of a document. The zero Query selects all of it.
type Query struct {
	// Part is the number of a part of the document, from 1, 0 for the whole.
	Part int
	// Pointer selects a value; what follows is about its text. HasPointer says that there is
	// one: the empty pointer means the whole value.
	Pointer    string
	HasPointer bool
	lines      *span // from 1
	bytes      *span // from 0
	grep       *pattern
}

// whole reports whether the query asks for all that is at its URI.
func (q *Query) whole() bool {
	return !q.HasPointer && q.lines == nil && q.bytes == nil && q.grep == nil
}

// Bound makes a query for all that is at its URI one for as much as fits into one answer.
func (q *Query) Bound() {
	if q.whole() {
		q.bytes = &span{to: -1}
	}
}

// ParseURI returns the id in the URI of a document, and the rest of the URI. It reports false
// for a URI that has another form. [ParseQuery] parses the rest.
func ParseURI(uri string) (id, rest string, ok bool) {
	if len(uri) > maxURILength {
		return "", "", false
	}
	after, ok := strings.CutPrefix(uri, Scheme+"//")
	if !ok {
		return "", "", false
	}
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	return after[:end], after[end:], end > 0
}

// ParseQuery parses what follows the id in the URI of a document: the number of a part, and
// parameters. A plus sign stands for itself (RFC 3986). The error says what would be right.
func ParseQuery(rest string) (Query, error) {
	var q Query
	path, params, _ := strings.Cut(rest, "?")
	if path = strings.Trim(path, "/"); path != "" {
		n, err := parseCount(path)
		if err != nil || n == 0 {
			return q, fmt.Errorf("after the id of a result there may be the number of a part, from 1, not %s", quote(path))
		}
		q.Part = n
	}
	given := Arguments{}
	seen := map[string]bool{}
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, "&")
		name, escaped, _ := strings.Cut(param, "=")
		value, err := url.PathUnescape(escaped)
		if err != nil {
			return q, fmt.Errorf("%s in the URI is not well escaped: write %% as %%25", quote(param))
		}
		if name == "" && value == "" {
			continue
		}
		if seen[name] {
			return q, fmt.Errorf("the URI has %s twice", quote(name))
		}
		seen[name] = true
		switch name {
		case "pointer":
			given.Pointer = &value
		case "lines":
			given.Lines = value
		case "range":
			given.Range = value
		case "grep":
			given.Grep = value
		case "context":
			given.Context = value
		default:
			return q, fmt.Errorf("the URI has the unknown parameter %s; there are pointer, lines, range, grep and context", quote(name))
		}
	}
	return q, q.Add(given)
}

// Arguments are the parameters of a query as they are written. Empty ones are not given.
type Arguments struct {
	Pointer                     *string
	Lines, Range, Grep, Context string
}

// Add adds parameters to a query, in the place of those that it has. The error says which one is
// wrong.
func (q *Query) Add(a Arguments) error {
	var err error
	if a.Pointer != nil {
		q.Pointer, q.HasPointer = *a.Pointer, true
	}
	if a.Lines != "" {
		if q.lines, err = spanOf("lines", a.Lines); err != nil {
			return err
		}
	}
	if a.Range != "" {
		if q.bytes, err = spanOf("range", a.Range); err != nil {
			return err
		}
	}
	context := 0
	if a.Context != "" {
		if context, err = strconv.Atoi(a.Context); err != nil || context < 0 || context > maxContext {
			return fmt.Errorf("context must be a number of lines from 0 to %d, not %s", maxContext, quote(a.Context))
		}
	}
	switch {
	case a.Grep != "":
		if q.grep, err = newPattern(a.Grep, context); err != nil {
			return err
		}
	case a.Context != "" && q.grep == nil:
		return errors.New("context is the number of lines around the matches of grep; it has no meaning without grep")
	case a.Context != "":
		q.grep.context = context
	}
	if q.bytes != nil && (q.lines != nil || q.grep != nil) {
		return errors.New("range cannot be combined with lines or grep; use lines to say where grep looks")
	}
	return nil
}

func spanOf(name, text string) (*span, error) {
	s, err := parseSpan(name, text)
	if err != nil {
		return nil, err
	}
	if name == "lines" && s.last == 0 && s.to == 0 {
		return nil, errors.New("lines are numbered from 1")
	}
	return &s, nil
}

// encode returns the query as it is written in a URI, with another span in the place of the one
// that it has: lines or bytes.
func (q *Query) encode(name string, s span) string {
	var b strings.Builder
	sep := byte('?')
	add := func(name, value string) {
		b.WriteByte(sep)
		sep = '&'
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(escape(value))
	}
	if q.HasPointer {
		add("pointer", q.Pointer)
	}
	add(name, s.String())
	if q.grep != nil {
		add("grep", q.grep.text)
		if q.grep.context > 0 {
			add("context", strconv.Itoa(q.grep.context))
		}
	}
	return b.String()
}

// escape escapes a value for a query. Slashes stay, so that pointers are easy to read.
func escape(value string) string {
	return queryDecoder.Replace(url.QueryEscape(value))
}

var queryDecoder = strings.NewReplacer("+", "%20", "%2F", "/")
