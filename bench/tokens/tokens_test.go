package tokens

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/script"
	"mcpgateway/internal/wire"
)

var (
	update = flag.Bool("update", false, "write the tables")
	data   = flag.String("data", "", "folder with the definitions that bench/search has gathered")
)

const page = "../../docs/search.md"

// TestTables compares the tables of docs/search.md with what profiles show to models.
func TestTables(t *testing.T) {
	sets := map[string][]server{"installed": installed(t)}
	if *data != "" {
		sets["gathered"] = gathered(t, *data)
	}
	for name, servers := range sets {
		compareTable(t, page, name, tableOf(t, servers))
	}
}

// row is what a model reads in one way.
type row struct {
	what  string
	tools int // that are listed
	text  string
}

// tableOf returns the table of a set of tools.
func tableOf(t *testing.T, servers []server) string {
	total := 0
	for _, s := range servers {
		total += len(s.Tools)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s tools of %d servers | tools that are listed | bytes | tokens | share |\n|---|---|---|---|---|\n", grouped(total), len(servers))
	whole := 0
	for i, r := range rows(t, servers) {
		tokens := tokensIn(t, r.text)
		if i == 0 {
			whole = tokens
		}
		listed := grouped(r.tools)
		if r.tools == 0 {
			listed = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.1f %% |\n", r.what, listed, grouped(len(r.text)), grouped(tokens), 100*float64(tokens)/float64(whole))
	}
	return b.String()
}

// rows returns what models read in each kind of profile.
func rows(t *testing.T, servers []server) []row {
	trim := profile.Trim{Description: 200, SchemaDescriptions: 80, Examples: true, Titles: true, OutputSchema: true, Annotations: true, Icons: true}
	var pinned []string
	for i := range 10 { // spread over the servers
		s := &servers[i*len(servers)/10]
		pinned = append(pinned, s.Name+"__"+wire.ValueOf(s.raw()[i%len(s.Tools)]).Get("name").Str())
	}
	search := metatool.Options{Search: true}
	split := metatool.Options{Search: true, Split: true}
	scripts := metatool.Options{Search: true, Scripts: &script.Limits{Steps: 1_000_000, Calls: 100, Parallel: 8, Time: 2 * time.Minute, Output: 64 << 10}}
	found := viewOf(t, servers, profile.Options{Search: true, Own: metatool.Items(search), Introduction: metatool.Introduction(search)})
	return []row{
		listing("`catalog: list`", viewOf(t, servers, profile.Options{})),
		listing("the same with `trim`: 200 characters of descriptions, 80 in schemas, no examples, titles and output schemas", viewOf(t, servers, profile.Options{Trim: trim})),
		listing("`catalog: search` with `pinned` tools", viewOf(t, servers, profile.Options{
			Search: true, Pinned: pinned, Own: metatool.Items(search), Introduction: metatool.Introduction(search),
		})),
		listing("`catalog: search` with `split`", viewOf(t, servers, profile.Options{Search: true, Own: metatool.Items(split), Introduction: metatool.Introduction(split)})),
		listing("`catalog: search` with `scripts`", viewOf(t, servers, profile.Options{Search: true, Own: metatool.Items(scripts), Introduction: metatool.Introduction(scripts)})),
		listing("`catalog: search`", found),
		{what: "one answer of `search_tools`: ten tools", text: answer(t, found, metatool.SearchTools, `{"query":"create a file"}`)},
		{what: "one answer of `describe_tools`: the first two of them", text: answer(t, found, metatool.DescribeTools, firstTwo(t, found, "create a file"))},
	}
}

// listing is what a host gives a model of the tools that are listed: names, descriptions, and
// schemas of arguments; and the instructions that belong to the own tools.
func listing(what string, v *catalog.View) row {
	var b strings.Builder
	b.WriteString(v.Instructions())
	entries := v.Entries(call.Tool)
	for _, e := range entries {
		tool := wire.ValueOf(e.Raw)
		out := wire.Raw(`{}`)
		for _, member := range []string{"name", "description", "inputSchema"} {
			if m := tool.Get(member); m.Exists() {
				out = wire.SetMember(out, member, m.Raw())
			}
		}
		b.Write(out)
		b.WriteByte('\n')
	}
	return row{what, len(entries), b.String()}
}

// viewOf returns what everybody sees in a profile.
func viewOf(t *testing.T, servers []server, o profile.Options) *catalog.View {
	t.Helper()
	o.Name = "p"
	var sources []catalog.Source
	for _, s := range servers {
		naming, err := namespace.New(s.Name, s.Name, "__")
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, catalog.Source{Naming: naming, Items: [call.Kinds][]wire.Raw{call.Tool: s.raw()}})
		o.Configured = append(o.Configured, profile.Upstream{Name: s.Name})
	}
	p, err := profile.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow}), Profile: p}, sources).View(call.Anonymous, nil)
}

// answer returns the text of an own tool's result.
func answer(t *testing.T, v *catalog.View, tool, arguments string) string {
	t.Helper()
	target, ok := v.Resolve(call.Tool, tool)
	if !ok {
		t.Fatalf("there is no %s", tool)
	}
	c := &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)), Principal: call.Anonymous}
	res, err := metatool.New().Call(context.Background(), c, target, v, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for el := range wire.ValueOf(res.Raw).Get("content").Elements() {
		b.WriteString(el.Get("text").Str())
	}
	return b.String()
}

// firstTwo returns the arguments of describe_tools for the first two tools that a search finds.
func firstTwo(t *testing.T, v *catalog.View, query string) string {
	t.Helper()
	var names []string
	for line := range strings.Lines(answer(t, v, metatool.SearchTools, fmt.Sprintf(`{"query":%q,"limit":2}`, query))) {
		if name, ok := strings.CutPrefix(line, "- "); ok {
			name, _, _ = strings.Cut(name, "(")
			names = append(names, string(wire.String(name)))
		}
	}
	return `{"names":[` + strings.Join(names, ",") + `]}`
}

// grouped writes a number with a comma between groups of three digits.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
