package metatool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

func TestSearchTools(t *testing.T) {
	const footing = "Call one with call_tool; describe_tools has their whole definitions."
	for _, tt := range []struct{ name, arguments, text string }{
		{"words", `{"query":"append to file","limit":1}`, "1 of 3 tools for \"append to file\", best first:\n- files__append(): Appends to a file. [files; writes]\nMore with offset 1.\n" + footing},
		{"a page", `{"query":"append to file","limit":"1","offset":2}`, "1 of 3 tools for \"append to file\", best first:\n- files__remove(): Removes a file. [files; may destroy]\n" + footing},
		{"an annotation", `{"query":"file","annotations":{"readOnlyHint":true}}`, "1 of 1 tools for \"file\", best first:\n- files__read(path: string, lines?: integer): Reads a file. [files; reads]\n" + footing},
		{"an annotation that is false", `{"query":"file","annotations":{"destructiveHint":false,"readOnlyHint":false}}`, "1 of 1 tools for \"file\", best first:\n- files__append(): Appends to a file. [files; writes]\n" + footing},
		{"an upstream", `{"query":"read","upstream":"files","limit":1}`, "1 of 1 tools for \"read\", best first:\n- files__read(path: string, lines?: integer): Reads a file. [files; reads]\n" + footing},
		{"a server", `{"query":"read","server":"files","limit":1}`, "1 of 1 tools for \"read\", best first:\n- files__read(path: string, lines?: integer): Reads a file. [files; reads]\n" + footing},
		{"another server", `{"query":"x","server":"git"}`, "isError: There is no server \"git\" here. These have tools: files."},
		{"words in an array", `{"query":["append","to"],"limit":1}`, "1 of 1 tools for \"append to\", best first:\n- files__append(): Appends to a file. [files; writes]\n" + footing},
		{"no words", `{"query":".*","limit":1,"upstream":"files"}`, "\".*\" has no words to search for. 1 of 3 tools:\n- files__read(path: string, lines?: integer): Reads a file. [files; reads]\nMore with offset 1.\n" + footing},
		{"no query", `{"query":"","limit":1}`, "1 of 3 tools:\n- files__read(path: string, lines?: integer): Reads a file. [files; reads]\nMore with offset 1.\n" + footing},
		{"after the last page", `{"query":"file","offset":9}`, "There are only 3 results."},
		{"unknown members", `{"query":"append","platform":"x"}`, "1 of 1 tools for \"append\", best first:\n- files__append(): Appends to a file. [files; writes]\n" + footing + "\nIgnored, because search_tools does not know them: `platform`."},
		{"nothing", `{"query":"weather"}`, "No tool was found for \"weather\". Use other or fewer words: an action and its object. These servers have tools: files."},
		{"nothing with a filter", `{"query":"append","annotations":{"readOnlyHint":true}}`, "No tool was found for \"append\". Use other or fewer words: an action and its object. Or search without `upstream` and `annotations`. These servers have tools: files."},
		{"what is hidden", `{"query":"secret"}`, "No tool was found for \"secret\". Use other or fewer words: an action and its object. These servers have tools: files."},
		{"no query", `{}`, "isError: search_tools needs `query`: what the tool should do, in a few words, or a part of its name. Write {\"query\": \"…\"}."},
		{"a number", `{"query":7}`, "isError: `query` must be a text: what the tool should do, in a few words, or a part of its name."},
		{"another upstream", `{"query":"x","upstream":"git"}`, "isError: There is no server \"git\" here. These have tools: files."},
		{"an upstream that is no text", `{"query":"x","upstream":[]}`, "isError: `upstream` must be the name of one server, a string as earlier results have it."},
		{"a limit", `{"query":"x","limit":0}`, "isError: `limit` must be a whole number from 1."},
		{"another limit", `{"query":"x","limit":1.5}`, "isError: `limit` must be a whole number from 1."},
		{"an offset", `{"query":"x","offset":-1}`, "isError: `offset` must be a whole number from 0."},
		{"an annotation that is none", `{"query":"x","annotations":{"safe":true}}`, "isError: `annotations` may have readOnlyHint, destructiveHint, idempotentHint and openWorldHint, for example {\"readOnlyHint\": true}."},
		{"an annotation that is no boolean", `{"query":"x","annotations":{"readOnlyHint":"yes"}}`, "isError: `annotations` must be an object with hints that are true or false, for example {\"readOnlyHint\": true}."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Search: true})
			if diff := cmp.Diff(tt.text, f.call(t, SearchTools, tt.arguments)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSearchToolsStructured(t *testing.T) {
	structured := func(o Options, arguments string) string {
		f := newFixture(t, o)
		res, err := f.result(t, SearchTools, `{"name":"search_tools","arguments":`+arguments+`}`)
		if err != nil {
			t.Fatal(err)
		}
		e := wire.NewEdit(wire.ValueOf(res.Raw).Get("structuredContent").Raw())
		for el := range e.Root().Get("tools").Elements() {
			e.Replace(el.Get("score"), wire.Raw("1"))
		}
		return string(e.Bytes())
	}
	const want = `{"tools":[{"name":"files__append","description":"Appends to a file.","upstream":"files","score":1,"parameters":"()"}],"total":3,"next_offset":1}`
	if got := structured(Options{Search: true}, `{"query":"append to file","limit":1}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const split = `{"tools":[{"name":"files__append","description":"Appends to a file.","upstream":"files","score":1,"parameters":"()","call_with":"call_write_tool"}],"total":1}`
	if got := structured(Options{Search: true, Split: true}, `{"query":"append"}`); got != split {
		t.Errorf("got %s, want %s", got, split)
	}
	if got := structured(Options{Search: true}, `{"query":"weather"}`); got != `{"tools":[],"total":0}` {
		t.Errorf("got %s", got)
	}
}

// A tool that the principal has called ranks higher for this principal, and for no other.
func TestSearchRemembersCalls(t *testing.T) {
	f := newFixture(t, Options{Search: true})
	const query = `{"name":"search_tools","arguments":{"query":"file"}}`
	before := f.send(t, SearchTools, query)
	if !strings.HasPrefix(before, "3 of 3 tools for \"file\", best first:\n- files__") {
		t.Fatalf("found %s", before)
	}
	last := ""
	for line := range strings.Lines(before) {
		if name, ok := strings.CutPrefix(line, "- "); ok {
			last, _, _ = strings.Cut(name, "(")
		}
	}
	f.call(t, CallTool, fmt.Sprintf(`{"name":%q}`, last))
	if after := f.send(t, SearchTools, query); !strings.Contains(after, "best first:\n- "+last+"(") {
		t.Errorf("after a call of %s: %s", last, after)
	}
	other := &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(query), Principal: &call.Principal{Subject: "other"}}
	target, _ := f.view.Resolve(call.Tool, SearchTools)
	res, err := f.Call(t.Context(), other, target, f.view, nil)
	if got := wire.ValueOf(res.Raw).Get("content"); err != nil || !strings.Contains(string(got.Raw()), string(wire.String(before))) {
		t.Errorf("another principal: %s, %v; want %s", res.Raw, err, before)
	}
}

// While an upstream is down, a search says that its tools may be missing.
func TestSearchNamesUpstreamsThatAreDown(t *testing.T) {
	o := Options{Search: true}
	p, err := profile.New(profile.Options{Name: "p", Configured: []profile.Upstream{{Name: "files"}, {Name: "git"}}, Search: true, Own: Items(o)})
	if err != nil {
		t.Fatal(err)
	}
	git := upstreamOf(t, "git", readTool)
	git.Down = &catalog.Down{Since: time.Now(), Reason: "it has ended"}
	table := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow}), Profile: p}, []catalog.Source{upstreamOf(t, "files", readTool), git})
	f := &fixture{Tools: New(), view: table.View(call.Anonymous, nil)}
	if got := f.call(t, SearchTools, `{"query":"read"}`); !strings.Contains(got, "1 of 1 tools") || !strings.HasSuffix(got, "Tools of these servers may be missing, since they do not answer now: git.") {
		t.Errorf("got %s", got)
	}
}

// The own tools are neither found nor described as if they were an upstream's, and their definitions are valid.
func TestOwnDefinitions(t *testing.T) {
	for _, o := range []Options{{Search: true}, {Search: true, Split: true}} {
		f := newFixture(t, o)
		for _, e := range f.view.Entries(call.Tool) {
			if err := e.Input.Err(); err != nil {
				t.Errorf("%s: its inputSchema is invalid: %v", e.Public, err)
			}
			if strings.ContainsAny(string(e.Raw), "{}") && strings.Contains(string(e.Raw), "{CALL}") || strings.Contains(string(e.Raw), "{WHICH}") || strings.Contains(string(e.Raw), "\n") {
				t.Errorf("the definition has a placeholder or a line break: %s", e.Raw)
			}
		}
		if got := f.call(t, SearchTools, `{"query":"search_tools"}`); strings.Contains(got, "- search_tools") {
			t.Errorf("a search finds itself: %s", got)
		}
		if got := f.view.Instructions(); !strings.Contains(got, "files (3)") || strings.Contains(got, "secret") {
			t.Errorf("the instructions are %q", got)
		}
	}
	if Items(Options{}) != nil || Introduction(Options{}) != "" {
		t.Error("a profile that lists all tools has own items")
	}
}

func TestEffectOf(t *testing.T) {
	for annotations, want := range map[string]effect{
		`{}`: destroys, `{"readOnlyHint":true}`: reads, `{"readOnlyHint":true,"destructiveHint":true}`: reads,
		`{"destructiveHint":false}`: writes, `{"readOnlyHint":false,"destructiveHint":true}`: destroys, `{"readOnlyHint":"true"}`: destroys,
	} {
		if got := effectOf(wire.Raw(`{"annotations":` + annotations + `}`)); got != want {
			t.Errorf("%s: %v, want %v", annotations, got, want)
		}
	}
	for _, c := range callers {
		var definition wire.Raw = wire.Raw(`{"annotations":` + c.annotations + `}`)
		if effectOf(definition) != c.effect || c.effect.callerOf() != c.name {
			t.Errorf("the annotations of %s are not true: %s", c.name, c.annotations)
		}
	}
}

// newSearchProfile returns a profile with search, and the upstream x.
func newSearchProfile(t *testing.T) *profile.Profile {
	t.Helper()
	p, err := profile.New(profile.Options{Name: "p", Configured: []profile.Upstream{{Name: "x"}}, Search: true, Own: Items(Options{Search: true})})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A search reads no more of hostile definitions than it shows.
func TestSearchWithHostileDefinitions(t *testing.T) {
	var properties, required strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&properties, `%s"p%d":{"type":"string","enum":["a\n%d"]}`, map[bool]string{true: ","}[i > 0], i, i)
		fmt.Fprintf(&required, `%s"p%d"`, map[bool]string{true: ","}[i > 0], i)
	}
	wide := fmt.Sprintf(`{"name":"wide","description":%s,"inputSchema":{"type":"object","properties":{%s},"required":[%s]}}`,
		wire.String(strings.Repeat("wide \n\u2028", 100_000)), properties.String(), required.String())
	f := newFixture(t, Options{Search: true})
	table := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow}), Profile: newSearchProfile(t)}, []catalog.Source{upstreamOf(t, "x", wide)})
	f.view = table.View(call.Anonymous, nil)
	got := f.call(t, SearchTools, `{"query":"wide"}`)
	if n := strings.Count(got, "\n"); n > 2 || len(got) > 2000 || !strings.Contains(got, "…") {
		t.Errorf("%d lines, %d bytes: %.500s", n, len(got), got)
	}
}

// The texts of an upstream are shown without characters that nobody sees.
func TestSearchShowsNoInvisibleCharacters(t *testing.T) {
	text := `"\u001b[31mred\u0000 \u202etxt\u200b \u007f\U000e0041end"`
	text = strings.ReplaceAll(text, `\U000e0041`, `\udb40\udc41`)
	f := newFixture(t, Options{Search: true})
	f.view = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow}), Profile: newSearchProfile(t)}, []catalog.Source{
		upstreamOf(t, "x", `{"name":"odd","description":`+text+`,"inputSchema":{"type":"object","properties":{`+text+`:{"enum":[`+text+`]}}}}`),
	}).View(call.Anonymous, nil)
	got, _, _ := strings.Cut(f.call(t, SearchTools, `{"query":"odd"}`), "\nCall one")
	if want := `1 of 1 tools for "odd", best first:` + "\n" + `- x__odd([31mred txt end?: "\u001b[31mred\u0000 \u202etxt\u200b \u007f\udb40\udc41end"): [31mred txt end [x; may destroy]`; got != want {
		t.Errorf("got  %+q\nwant %+q", got, want)
	}
}
