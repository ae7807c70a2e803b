package webui

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/wire"
)

var catalogPage = &page{path: "/catalog", name: "catalog", title: "Catalog", data: (*Console).catalog}

// catalogRows is how many items one page of the catalog has.
const catalogRows = 100

// maxFindings bounds the problems on one page.
const maxFindings = 200

// catalogView has the data of the catalog.
type catalogView struct {
	filter
	Kinds       []kindTab
	Profiles    []string
	Upstreams   []string
	Rows        []itemRow
	Found, From int // items that match; the number of the first row
	Prev, Next  string
	Problems    []problem // of items that are not published
	MoreProblem int
}

// filter is the query of the catalog and of an item.
type filter struct {
	kind     call.Kind
	Kind     string
	Query    string
	Upstream string
	viewpoint
}

// viewpoint is the profile and the principal of a view of the catalog.
type viewpoint struct {
	Profile string // its id, "" for the default one
	As      string
	AsError string
	Remarks []string // of the configuration about the principal
	who     *call.Principal
}

type kindTab struct {
	Name, Href string
	Count      int
	Shown      int // of Count: the lists of upstreams hide the others
	Current    bool
}

type itemRow struct {
	Public, Native, Upstream, Title, Description, Href string
	Hints                                              []string
	Violations                                         int
	Hidden                                             bool   // by the lists of its upstream
	Effect, Rule                                       string // if somebody's view is shown
}

type problem struct{ Kind, Upstream, Native, Public, Issue, Reason, Severity string }

// filterOf reads the query of a request.
func (c *Console) filterOf(r *http.Request) filter { return c.filterIn(r.URL.Query()) }

// filterIn reads the query of a request, or a form with the same fields.
func (c *Console) filterIn(q url.Values) filter {
	f := filter{Kind: q.Get("kind"), Query: q.Get("q"), Upstream: q.Get("upstream"), viewpoint: c.viewpointOf(q)}
	for kind := range call.Kind(call.Kinds) {
		if kind.String() == f.Kind {
			f.kind = kind
		}
	}
	f.Kind = f.kind.String()
	return f
}

func (c *Console) viewpointOf(q url.Values) viewpoint {
	v := viewpoint{Profile: q.Get("profile"), As: strings.TrimSpace(q.Get("as"))}
	if v.As == "" {
		return v
	}
	p, err := inspect.ParsePrincipal(v.As)
	if err == nil && c.Assume != nil {
		p, err = v.assume(c, p)
	}
	if err != nil {
		v.AsError = err.Error()
		return v
	}
	v.who = p.In(v.Profile)
	return v
}

// assume completes the principal, and notes what does not fit.
func (v *viewpoint) assume(c *Console, p *call.Principal) (*call.Principal, error) {
	p, remarks, refused, err := c.Assume(p, v.profileName())
	if v.Remarks = remarks; refused != "" {
		v.Remarks = append(v.Remarks, refused)
	}
	return p, err
}

// profileName returns the name of the profile, "default" for the default one.
func (v *viewpoint) profileName() string {
	if v.Profile == "" {
		return "default"
	}
	return v.Profile
}

// query returns the query of a link with this filter and other values.
func (f *filter) query(with map[string]string) string {
	q := url.Values{}
	for name, value := range map[string]string{"kind": f.Kind, "q": f.Query, "upstream": f.Upstream, "profile": f.Profile, "as": f.As} {
		q.Set(name, value)
	}
	for name, value := range with {
		q.Set(name, value)
	}
	for name := range q {
		if q.Get(name) == "" {
			q.Del(name)
		}
	}
	return "?" + q.Encode()
}

func (c *Console) catalog(r *http.Request) (any, error) {
	f := c.filterOf(r)
	table := c.Inspector.Current(f.Profile)
	if table == nil {
		return nil, notFoundError("There is no profile " + f.Profile + ".")
	}
	v := &catalogView{filter: f}
	for _, kind := range []call.Kind{call.Tool, call.Resource, call.Template, call.Prompt} {
		tab := kindTab{Name: kind.Plural(), Href: f.query(map[string]string{"kind": kind.String()}), Count: len(table.Published(kind)), Current: kind == f.kind}
		for _, e := range table.Published(kind) {
			if !table.HiddenByLists(e) {
				tab.Shown++
			}
		}
		v.Kinds = append(v.Kinds, tab)
	}
	for _, p := range c.Inspector.Profiles() {
		v.Profiles = append(v.Profiles, p.Name)
	}
	for _, u := range c.Inspector.Upstreams() {
		v.Upstreams = append(v.Upstreams, u.Name)
	}
	v.addRows(table, c.violations(table, f.kind), r.URL.Query().Get("page"))
	v.addProblems(table)
	return v, nil
}

// itemKey identifies an item of a kind.
type itemKey struct{ upstream, native string }

// violations counts the violations of the items of a kind.
func (c *Console) violations(table *catalog.Table, kind call.Kind) map[itemKey]int {
	n := make(map[itemKey]int)
	for _, found := range table.Findings() {
		if found.Kind == kind && isViolation(found.Issue) {
			n[itemKey{found.Upstream, found.Native}]++
		}
	}
	return n
}

func isViolation(i catalog.Issue) bool {
	return i == catalog.Quarantined || i == catalog.Duplicate || i == catalog.Nonconforming
}

// addRows adds the rows of one page.
func (v *catalogView) addRows(table *catalog.Table, violations map[itemKey]int, number string) {
	words := strings.Fields(strings.ToLower(v.Query))
	var found []*catalog.Entry
	for _, e := range table.Published(v.kind) {
		if (v.Upstream == "" || e.Upstream() == v.Upstream) && matches(e, words) {
			found = append(found, e)
		}
	}
	at, _ := strconv.Atoi(number) // a page that is no number is the first
	first := max(0, min(at-1, (len(found)-1)/catalogRows)) * catalogRows
	end := min(first+catalogRows, len(found))
	v.Found, v.From = len(found), first+1
	if first > 0 {
		v.Prev = v.query(map[string]string{"page": strconv.Itoa(first / catalogRows)})
	}
	if end < len(found) {
		v.Next = v.query(map[string]string{"page": strconv.Itoa(first/catalogRows + 2)})
	}
	var view *catalog.View
	if v.who != nil {
		view = table.View(v.who, &call.Client{Revision: wire.Rev20260728})
	}
	for _, e := range found[first:end] {
		row := itemRow{
			Public: e.Public, Native: e.Native, Upstream: e.Upstream(), Violations: violations[itemKey{e.Upstream(), e.Native}], Hidden: table.HiddenByLists(e),
			Href: Prefix + "/catalog/item" + v.query(map[string]string{"name": e.Public, "q": "", "upstream": ""}),
		}
		item := valueOf(e.Raw)
		row.Title, row.Description = titleOf(item), firstLine(item.Get("description").Str())
		row.Hints = hintsOf(item.Get("annotations"))
		if view != nil {
			d := inspect.Decide(view, e)
			row.Effect, row.Rule = d.Effect.String(), d.Rule
		}
		v.Rows = append(v.Rows, row)
	}
}

// matches reports whether all words are in an item.
func matches(e *catalog.Entry, words []string) bool {
	if len(words) == 0 {
		return true
	}
	item := valueOf(e.Raw)
	text := strings.ToLower(e.Public + "\n" + e.Native + "\n" + titleOf(item) + "\n" + item.Get("description").Str())
	return containsAll(text, words)
}

// titleOf returns the title of an item.
func titleOf(item wire.Value) string {
	if title := item.Get("title").Str(); title != "" {
		return title
	}
	return item.Get("annotations", "title").Str()
}

// firstLine returns the beginning of a description.
func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if at := strings.IndexByte(text, '\n'); at >= 0 {
		text = text[:at] + " …"
	}
	return clip(text, 240)
}

// hintsOf returns what a tool claims about itself, in words.
func hintsOf(annotations wire.Value) (hints []string) {
	for _, h := range []struct{ name, yes, no string }{
		{"readOnlyHint", "read-only", ""}, {"destructiveHint", "destructive", ""},
		{"idempotentHint", "idempotent", ""}, {"openWorldHint", "open world", ""},
	} {
		if annotations.Get(h.name).Bool() {
			hints = append(hints, h.yes)
		}
	}
	return hints
}

// addProblems adds what is wrong with items, those that are not published first.
func (v *catalogView) addProblems(table *catalog.Table) {
	for _, hidden := range []bool{true, false} {
		for _, f := range table.Findings() {
			if (f.Public == "") != hidden || f.Kind != v.kind || v.Upstream != "" && f.Upstream != v.Upstream {
				continue
			}
			if len(v.Problems) == maxFindings {
				v.MoreProblem++
				continue
			}
			v.Problems = append(v.Problems, problemOf(f))
		}
	}
}

func problemOf(f catalog.Finding) problem {
	p := problem{f.Kind.String(), f.Upstream, f.Native, f.Public, f.Issue.String(), f.Reason, "warning"}
	if f.Public == "" {
		p.Severity = "error"
	}
	return p
}
