package metatool

import (
	"fmt"
	"strconv"
	"strings"

	"mcpgateway/internal/search"
	"mcpgateway/internal/wire"
)

// readQuery reads the arguments of search_tools. Members that it does not know are ignored, since
// a search that runs helps a model more than an error. A number may be written as text.
func readQuery(args wire.Value) (q search.Query, ignored []string, wrong string) {
	query := args.Get("query")
	switch {
	case !query.Exists():
		return q, nil, SearchTools + " needs `query`: what the tool should do, in a few words, or a part of its name. Write {\"query\": \"…\"}."
	case query.Kind() == '[': // of words
		var words []string
		for el := range query.Elements() {
			words = append(words, el.Str())
		}
		q.Text = strings.Join(words, " ")
	case query.Kind() == '"':
		q.Text = query.Str()
	default:
		return q, nil, "`query` must be a text: what the tool should do, in a few words, or a part of its name."
	}
	if q.Limit, wrong = readCount(args, "limit", 1); wrong != "" {
		return q, nil, wrong
	}
	if q.Offset, wrong = readCount(args, "offset", 0); wrong != "" {
		return q, nil, wrong
	}
	from := args.Get("upstream")
	if !from.Exists() {
		from = args.Get("server") // as the texts say
	}
	switch {
	case !from.Exists(), from.Kind() == 'n':
	case from.Kind() == '"':
		q.Upstream = from.Str()
	default:
		return q, nil, "`upstream` must be the name of one server, a string as earlier results have it."
	}
	if wrong = readHints(args.Get("annotations"), &q); wrong != "" {
		return q, nil, wrong
	}
	return q, membersBeside(args, "query", "limit", "offset", "upstream", "server", "annotations"), ""
}

// readCount reads a whole number, 0 if there is none.
func readCount(args wire.Value, member string, least int64) (int, string) {
	v := args.Get(member)
	n, ok := v.Int()
	if text, is := v.Text(); is {
		parsed, err := strconv.ParseInt(text, 10, 64)
		n, ok = parsed, err == nil
	}
	switch {
	case !v.Exists(), v.Kind() == 'n':
		return 0, ""
	case !ok || n < least:
		return 0, fmt.Sprintf("`%s` must be a whole number from %d.", member, least)
	}
	return int(min(n, 1<<30)), ""
}

// readHints reads the annotations that tools must have.
func readHints(v wire.Value, q *search.Query) string {
	const example = `{"readOnlyHint": true}`
	v, ok := objectOf(v)
	if !ok {
		return "`annotations` must be an object with hints that are true or false, for example " + example + "."
	}
	for m := range v.Members() {
		hint, known := search.HintNamed(m.Key.Str())
		switch kind := m.Value.Kind(); {
		case !known:
			return "`annotations` may have readOnlyHint, destructiveHint, idempotentHint and openWorldHint, for example " + example + "."
		case kind == 't':
			q.True |= hint
		case kind == 'f':
			q.False |= hint
		default:
			return "`annotations` must be an object with hints that are true or false, for example " + example + "."
		}
	}
	return ""
}
