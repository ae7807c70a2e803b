package search

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// examples are tools of several servers, in the order of a list.
var examples = []Tool{
	{Name: "github__create_issue", Upstream: "github", Description: "Create a new issue in a GitHub repository", Params: []Param{{"owner", "Repository owner"}, {"title", "Issue title"}}},
	{Name: "github__create_issue_comment", Upstream: "github", Description: "Add a comment to an existing issue"},
	{Name: "github__list_issues", Upstream: "github", Description: "List issues in a repository with filters", Hints: ReadOnly | Idempotent},
	{Name: "github__create_pull_request", Upstream: "github", Description: "Open a pull request"},
	{Name: "files__read_file", Upstream: "files", Tags: []string{"storage"}, Description: "Read the complete contents of a file", Hints: ReadOnly | Idempotent},
	{Name: "files__write_file", Upstream: "files", Tags: []string{"storage"}, Description: "Write text into a file", Hints: Destructive},
	{Name: "files__delete_directory", Upstream: "files", Tags: []string{"storage"}, Description: "Removes a folder and what is in it", Hints: Destructive},
	{Name: "hooks__add_web_hook", Upstream: "hooks", Description: "Registers a callback URL for notifications"},
	{Name: "weather__getForecast", Upstream: "weather", Title: "Weather forecast", Description: "Forecast for a city", Hints: ReadOnly | Idempotent | OpenWorld},
	{Name: "pg__query", Upstream: "pg", Description: "Run SQL against the database"},
	{Name: "wiki__搜索页面", Upstream: "wiki", Description: "搜索维基百科的页面"},
	{Name: "bank__convert", Upstream: "bank", Description: "Converts an amount", Params: []Param{{"target_currency", "ISO code of the currency"}}},
}

func indexOf(tools []Tool) *Index {
	docs := make([]*Doc, len(tools))
	for i, t := range tools {
		docs[i] = Analyze(t)
	}
	return New(docs)
}

func names(p Page) []string {
	var out []string
	for _, h := range p.Hits {
		out = append(out, h.Name())
	}
	return out
}

func TestTheBestToolIsFirst(t *testing.T) {
	x := indexOf(examples)
	for query, want := range map[string]string{
		"create issue":                       "github__create_issue",
		"github__create_issue":               "github__create_issue",
		"create_issue":                       "github__create_issue",
		"createIssue":                        "github__create_issue",
		"open a new ticket in the repo":      "github__create_issue",
		"reply to an issue with a comment":   "github__create_issue_comment",
		"which issues are there?":            "github__list_issues",
		"make a PR":                          "github__create_pull_request",
		"pullrequest":                        "github__create_pull_request",
		"reading files":                      "files__read_file",
		"remove a dir":                       "files__delete_directory",
		"erase folder":                       "files__delete_directory",
		"webhook":                            "hooks__add_web_hook",
		"notifiactions":                      "",
		"forcast":                            "weather__getForecast",
		"direc":                              "files__delete_directory",
		"get the forcast":                    "weather__getForecast",
		"get_forecast":                       "weather__getForecast",
		"what will the weather be tomorrow?": "weather__getForecast",
		"query the db":                       "pg__query",
		"搜索":                                 "wiki__搜索页面",
		"页面":                                 "wiki__搜索页面",
		"currency":                           "bank__convert",
		"storage directory":                  "files__delete_directory",
		"zzzz qqqq":                          "",
	} {
		p := x.Search(Query{Text: query})
		if want == "" {
			if len(p.Hits) != 0 || p.Total != 0 {
				t.Errorf("%q finds %q, want nothing", query, names(p))
			}
		} else if len(p.Hits) == 0 || p.Hits[0].Name() != want {
			t.Errorf("%q finds %q, want %s first", query, names(p), want)
		}
	}
}

// The name of a server says which tools are meant, however often descriptions have it.
func TestTheServerCountsAlikeForItsTools(t *testing.T) {
	x := indexOf([]Tool{
		{Name: "acme__rename", Upstream: "acme", Description: "Gives an Acme item another name. Acme items, Acme boards and Acme lists have names in Acme."},
		{Name: "acme__drop", Upstream: "acme", Description: "Takes an item away"},
		{Name: "other__drop_acme", Upstream: "other", Description: "Drops things of Acme"},
		{Name: "acmecloud__erase", Upstream: "acmecloud", Description: "Erases a machine"},
	})
	for query, want := range map[string]string{"delete in Acme": "acme__drop", "about acmec": "acmecloud__erase"} {
		if got := names(x.Search(Query{Text: query})); got[0] != want {
			t.Errorf("%q finds %q, want %s first", query, got, want)
		}
	}
}

// Words that are written as one, or apart, find each other; the parts of a name such as GitHub
// say little beside the whole, and DB in it is no database.
func TestCompounds(t *testing.T) {
	x := indexOf([]Tool{
		{Name: "git__hub", Upstream: "git", Description: "The hub of git"},
		{Name: "github__star", Upstream: "github", Description: "Marks something"},
		{Name: "list_databases", Description: "Lists what is there"},
		{Name: "webhook_new", Description: "Makes one"},
		{Name: "x", Description: "For people who like MongoDB"},
	})
	for query, want := range map[string]string{
		"about GitHub": "github__star", "git hub": "git__hub", "web hook": "webhook_new", "MongoDB": "x", "mongo db": "x", "database": "list_databases",
	} {
		p := x.Search(Query{Text: query})
		if len(p.Hits) == 0 || p.Hits[0].Name() != want {
			t.Errorf("%q finds %q, want %s first", query, names(p), want)
		}
	}
	for _, query := range []string{"MongoDB", "database"} {
		if p := x.Search(Query{Text: query}); p.Total != 1 {
			t.Errorf("%q finds %q, want one tool", query, names(p))
		}
	}
}

// Words that have many similar ones leave room for the others.
func TestTheLastWordsOfALongQueryCount(t *testing.T) {
	query := "create delete list get find update run retry stop send reply assign approve merge copy undo move check save upload share mute currency"
	if got := names(indexOf(examples).Search(Query{Text: query, Limit: MaxLimit})); !slices.Contains(got, "bank__convert") {
		t.Errorf("%q finds %q", query, got)
	}
}

func TestToolsThatDoWhatIsAskedCountMore(t *testing.T) {
	var tools []Tool
	for _, name := range []string{"remove_card", "update_card", "start_card", "close_card", "create_card", "get_card"} {
		tools = append(tools, Tool{Name: name, Description: "About cards"})
	}
	x := indexOf(tools)
	for query, want := range map[string]string{
		"which cards do I have": "get_card", "compose a card": "create_card", "move the card": "update_card",
		"uninstall the card": "remove_card", "retry the card": "start_card", "quit the card": "close_card",
	} {
		if got := names(x.Search(Query{Text: query})); got[0] != want {
			t.Errorf("%q finds %q, want %s first", query, got, want)
		}
	}
}

// The first sentence of a description says what a tool does, the rest how to use it.
func TestTheFirstSentenceCountsMore(t *testing.T) {
	x := indexOf([]Tool{
		{Name: "a", Description: "Works with the things that you have. Ask for a refund of an order with another tool."},
		{Name: "b", Description: "Pays the refund of an order back. Works with the things that you have, all of them."},
	})
	if got := names(x.Search(Query{Text: "refund order"})); got[0] != "b" {
		t.Errorf("got %q, want b first", got)
	}
	for text, want := range map[string]string{
		"": "", "Short.": "Short.", "e.g. this is one sentence. That is two.": "e.g. this is one sentence.",
		"\n\n   Indented text of a line\nand more": "\n\n   Indented text of a line", strings.Repeat("é", 1000): strings.Repeat("é", maxTitle/2),
	} {
		if got := firstSentence(text); got != want {
			t.Errorf("firstSentence(%.40q) = %.60q, want %.60q", text, got, want)
		}
	}
}

// A query that is the beginning of names lists those first, whatever else has the words more
// often.
func TestNamesThatTheQueryBeginsComeFirst(t *testing.T) {
	tools := slices.Clone(examples)
	tools = append(tools, Tool{Name: "x__spam", Upstream: "x", Title: "create create issue", Description: strings.Repeat("create issue ", 50)})
	got := names(indexOf(tools).Search(Query{Text: "create_is"}))
	if want := []string{"github__create_issue", "github__create_issue_comment"}; !slices.Equal(got[:2], want) {
		t.Errorf("got %q, want %q first", got, want)
	}
	got = names(indexOf(tools).Search(Query{Text: "create_issue"}))
	if want := []string{"github__create_issue", "github__create_issue_comment", "x__spam"}; !slices.Equal(got[:3], want) {
		t.Errorf("got %q, want %q first", got, want)
	}
}

func TestAQueryWithoutWordsThatCountListsAll(t *testing.T) {
	x := indexOf(examples)
	for _, text := range []string{"", " \t", "what can you do for me?", "!?*"} {
		p := x.Search(Query{Text: text, Limit: MaxLimit})
		if p.Total != len(examples) || len(p.Hits) != p.Total || p.Hits[0].Index != 0 || p.Hits[5].Index != 5 {
			t.Errorf("%q finds %d of %d: %q", text, p.Total, len(examples), names(p))
		}
	}
}

func TestFilters(t *testing.T) {
	x := indexOf(examples)
	for _, c := range []struct {
		q    Query
		want []string
	}{
		{Query{Upstream: "files"}, []string{"files__read_file", "files__write_file", "files__delete_directory"}},
		{Query{Upstream: "files", True: ReadOnly}, []string{"files__read_file"}},
		{Query{Upstream: "files", False: ReadOnly, True: Destructive}, []string{"files__write_file", "files__delete_directory"}},
		{Query{Text: "read_file", Upstream: "github"}, nil},
		{Query{Text: "github__create_issue", True: ReadOnly}, []string{"github__list_issues"}},
	} {
		p := x.Search(c.q)
		if got := names(p); !slices.Equal(got, c.want) || p.Total != len(c.want) {
			t.Errorf("%+v finds %q of %d, want %q", c.q, got, p.Total, c.want)
		}
	}
}

func TestPagesHoldEachToolOnce(t *testing.T) {
	var tools []Tool
	for i := range 237 {
		tools = append(tools, Tool{Name: fmt.Sprintf("s__list_%d", i%7), Upstream: "s", Description: strings.Repeat("list of things ", 1+i%3)})
	}
	x := indexOf(tools)
	all := map[int]bool{}
	last := 1e9
	q := Query{Text: "list things", Limit: 10}
	for pages := 0; ; pages++ {
		p := x.Search(q)
		if p.Total != len(tools) || pages > 30 {
			t.Fatalf("page %d: total %d", pages, p.Total)
		}
		for i, h := range p.Hits {
			if all[h.Index] || h.Score > last || i > 0 && h.Score == last && h.Index < p.Hits[i-1].Index {
				t.Fatalf("page %d: hit %d is out of order or there twice", pages, i)
			}
			all[h.Index], last = true, h.Score
		}
		if p.Next == 0 {
			break
		}
		q.Offset = p.Next
	}
	if len(all) != len(tools) {
		t.Errorf("%d tools in all pages, want %d", len(all), len(tools))
	}
	for _, offset := range []int{-1, len(tools), 1 << 40} {
		if p := x.Search(Query{Text: "list", Offset: offset}); len(p.Hits) != 0 || p.Next != 0 {
			t.Errorf("offset %d: %d hits, next %d", offset, len(p.Hits), p.Next)
		}
	}
	if p := x.Search(Query{Text: "list", Limit: 1 << 40}); len(p.Hits) != MaxLimit {
		t.Errorf("%d hits on a page, want at most %d", len(p.Hits), MaxLimit)
	}
}

func TestThePriorDecidesBetweenSimilarTools(t *testing.T) {
	x := indexOf([]Tool{
		{Name: "a__search", Upstream: "a", Description: "Search the web"},
		{Name: "b__search", Upstream: "b", Description: "Search the web"},
		{Name: "c__crawl", Upstream: "c", Description: "Crawl a site"},
	})
	prior := func(d *Doc) float64 {
		if d.Upstream() == "b" || d.Upstream() == "c" {
			return 1e9
		}
		return -5
	}
	if got := names(x.Search(Query{Text: "web search", Prior: prior})); !slices.Equal(got, []string{"b__search", "a__search"}) {
		t.Errorf("with a prior: %q", got)
	}
}

// Another ranking finds tools that have no word of the query. A name that is the query stays
// first, and filters hold.
func TestRankingsAreFused(t *testing.T) {
	x := indexOf(examples)
	const payments, weather, files = 11, 8, 4
	got := names(x.Search(Query{Text: "weather", Nearest: []int{payments, weather, -1, 1 << 20}}))
	if want := []string{"weather__getForecast", "bank__convert"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = names(x.Search(Query{Text: "read_file", Nearest: []int{payments, weather}, Limit: 1}))
	if want := []string{"files__read_file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = names(x.Search(Query{Text: "zzzz", Nearest: []int{payments, files}, Upstream: "files"}))
	if want := []string{"files__read_file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Documents that a view hides change nothing: an index of the visible ones is the same whether
// or not others were analyzed and indexed beside them.
func TestHiddenDocumentsChangeNothing(t *testing.T) {
	alone := indexOf(examples)
	var all []*Doc
	for i := range 500 {
		all = append(all, Analyze(Tool{Name: fmt.Sprintf("secret__issue_%d", i), Upstream: "secret", Description: "create issue forcast zzzz"}))
	}
	for i := range examples {
		all = append(all, Analyze(examples[i]))
	}
	New(all)
	beside := New(all[500:])
	for _, text := range []string{"create issue", "forcast", "zzzz", "", "secret", "issue_1", "files", "read", "搜索"} {
		a, b := alone.Search(Query{Text: text}), beside.Search(Query{Text: text})
		if !slices.Equal(names(a), names(b)) || a.Total != b.Total || a.Next != b.Next {
			t.Errorf("%q: %q of %d, beside hidden tools %q of %d", text, names(a), a.Total, names(b), b.Total)
		}
		for i := range a.Hits {
			if a.Hits[i].Score != b.Hits[i].Score {
				t.Errorf("%q: score %v, beside hidden tools %v", text, a.Hits[i].Score, b.Hits[i].Score)
			}
		}
	}
}

func TestToolOf(t *testing.T) {
	got := ToolOf(wire.Raw(`{"name":"n","description":"d","annotations":{"title":"t","readOnlyHint":true,"openWorldHint":false},
		"inputSchema":{"type":"object","properties":{"a":{"description":"A"},"b":{"type":"array","items":{"properties":{"c":{}}}}}}}`))
	want := Tool{Name: "n", Title: "t", Description: "d", Params: []Param{{"a", "A"}, {"b", ""}, {"c", ""}}, Hints: ReadOnly | Idempotent}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := ToolOf(wire.Raw(`{"name":"n","annotations":{"destructiveHint":false,"idempotentHint":"yes"}}`)).Hints; got != OpenWorld {
		t.Errorf("hints %b, want open world", got)
	}
	if got := ToolOf(wire.Raw(`{"name":"n"}`)).Hints; got != Destructive|OpenWorld {
		t.Errorf("hints without annotations: %b", got)
	}
	deep := strings.Repeat(`{"properties":{"p":`, 100) + `{}` + strings.Repeat(`}}`, 100)
	if n := len(ToolOf(wire.Raw(`{"name":"n","inputSchema":` + deep + `}`)).Params); n != maxDepth+1 {
		t.Errorf("%d parameters of a deep schema", n)
	}
	if h, ok := HintNamed("idempotentHint"); h != Idempotent || !ok {
		t.Error("idempotentHint is unknown")
	}
	if _, ok := HintNamed("title"); ok {
		t.Error("title is a hint")
	}
}

func TestTop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	order := func(a, b int32) int { return int(a - b) }
	for range 2000 {
		a := make([]int32, 1+r.IntN(200))
		for i := range a {
			a[i] = r.Int32N(50)
		}
		want := slices.Sorted(slices.Values(a))
		n := 1 + r.IntN(len(a))
		top(a, n, order)
		if !slices.Equal(a[:n], want[:n]) {
			t.Fatalf("first %d: %v, want %v", n, a[:n], want[:n])
		}
	}
}

func TestOneApart(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"forecast", "forcast", true}, {"forecast", "forecasts", true}, {"forecast", "xforecast", true}, {"forecast", "forecast", false},
		{"forecast", "foercast", true}, {"forecast", "forecats", true}, {"forecast", "forecest", true}, {"forecast", "frcast", false},
		{"list", "lits", true}, {"list", "last", true}, {"list", "mast", false}, {"a", "b", false}, {"", "", false}, {"abcd", "dcba", false},
	} {
		if oneApart(c.a, c.b) != c.want || oneApart(c.b, c.a) != c.want {
			t.Errorf("oneApart(%q, %q) is not %v", c.a, c.b, c.want)
		}
	}
}

func TestEmptyIndex(t *testing.T) {
	for _, text := range []string{"", "list"} {
		if p := New(nil).Search(Query{Text: text}); p.Total != 0 || len(p.Hits) != 0 {
			t.Errorf("%q finds %+v", text, p)
		}
	}
}
