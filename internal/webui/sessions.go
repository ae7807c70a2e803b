package webui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"mcpgateway/internal/inspect"
)

var sessionsPage = &page{path: "/sessions", name: "sessions", title: "Sessions", data: (*Console).sessionsOf}

// sessionRows bounds each table of the page.
const sessionRows = 100

// sessionsView has the data of the page.
type sessionsView struct {
	Query    string
	Sessions shown[inspect.ClientSession]
	Listens  shown[inspect.ListenStream]
	Parked   shown[inspect.ParkedCall]
}

// shown are the first rows of those that match.
type shown[Row any] struct {
	Rows    []Row
	Matches int
	All     int
}

// counted is what begins a section with a table of rows.
type counted struct {
	ID, Title string
	All       int
	Any       bool // there are rows
}

func countedOf(id, title string, all, rows int) counted {
	return counted{id, title, all, rows > 0}
}

// More returns how many rows match and are not shown.
func (s shown[Row]) More() int { return s.Matches - len(s.Rows) }

func (c *Console) sessionsOf(r *http.Request) (any, error) {
	v := &sessionsView{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	words := strings.Fields(strings.ToLower(v.Query))
	selects := func(of *inspect.ClientOf, more ...string) bool {
		if len(words) == 0 {
			return true
		}
		text := append(more, of.Client, of.Version, of.Principal, of.Issuer, of.Profile, of.Revision)
		return containsAll(strings.ToLower(strings.Join(text, "\n")), words)
	}
	open := c.Sessions()
	v.Sessions = firstOf(open.Sessions, func(s *inspect.ClientSession) bool { return selects(&s.ClientOf, s.Digest) },
		func(a, b inspect.ClientSession) int {
			return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Digest, b.Digest))
		})
	v.Listens = firstOf(open.Listens, func(l *inspect.ListenStream) bool { return selects(&l.ClientOf) },
		func(a, b inspect.ListenStream) int {
			return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Client, b.Client))
		})
	v.Parked = firstOf(open.Parked, func(p *inspect.ParkedCall) bool {
		return selects(&p.ClientOf, append(p.Asks, p.Digest, p.Request, p.Method, p.Item)...)
	}, func(a, b inspect.ParkedCall) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Digest, b.Digest))
	})
	return v, nil
}

// firstOf returns the first of the rows that keep selects, in the order of compare.
func firstOf[Row any](all []Row, keep func(*Row) bool, compare func(a, b Row) int) shown[Row] {
	s := shown[Row]{All: len(all)}
	for i := range all {
		if keep(&all[i]) {
			s.Rows = append(s.Rows, all[i])
		}
	}
	s.Matches = len(s.Rows)
	slices.SortFunc(s.Rows, compare)
	s.Rows = s.Rows[:min(len(s.Rows), sessionRows)]
	return s
}
