package metatool

import (
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

func TestCallTool(t *testing.T) {
	const sent = `{"name":"files__read","arguments":{"path":"/a"}}`
	for _, tt := range []struct{ name, arguments, inner string }{
		{"as described", `{"name":"files__read","arguments":{"path":"/a"}}`, sent},
		{"arguments as text", `{"name":"files__read","arguments":"{\"path\":\"/a\"}"}`, sent},
		{"one level too deep", `{"arguments":{"name":"files__read","arguments":{"path":"/a"}}}`, sent},
		{"one level too deep, as text", `{"arguments":"{\"name\":\"files__read\",\"arguments\":{\"path\":\"/a\"}}"}`, sent},
		{"no arguments", `{"name":"files__read"}`, `{"name":"files__read","arguments":{}}`},
		{"null", `{"name":"files__read","arguments":null}`, `{"name":"files__read","arguments":{}}`},
		{"bytes of the arguments are kept", `{"name":"files__read","arguments":{"path" : 1e2}}`, `{"name":"files__read","arguments":{"path" : 1e2}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Search: true})
			if got := f.call(t, CallTool, tt.arguments); got != "done" || !slices.Equal(f.inner, []string{tt.inner}) {
				t.Errorf("got %q; the inner call is %q, want %q", got, f.inner, tt.inner)
			}
		})
	}
}

// A progress token and the wish for a task belong to the inner call.
func TestCallToolPassesOnTaskAndMeta(t *testing.T) {
	f := newFixture(t, Options{Search: true})
	f.send(t, CallTool, `{"name":"call_tool","arguments":{"name":"files__read"},"_meta":{"progressToken":7},"task":{"ttl":1},"requestState":"x"}`)
	if want := `{"name":"files__read","arguments":{},"_meta":{"progressToken":7},"task":{"ttl":1}}`; !slices.Equal(f.inner, []string{want}) {
		t.Errorf("the inner call is %q, want %q", f.inner, want)
	}
}

func TestCallToolSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ arguments, want string }{
		{`{}`, "call_tool needs `name`: the name of the tool to call, as search_tools returned it. Write {\"name\": \"…\", \"arguments\": {…}}."},
		{`{"tool":"files__read"}`, "call_tool needs `name`: the name of the tool to call, as search_tools returned it. Write {\"name\": \"…\", \"arguments\": {…}}."},
		{`{"name":7}`, "`name` must be the name of the tool to call, a string as search_tools returned it."},
		{`{"name":"files__read","arguments":[1]}`, "`arguments` must be an object with the arguments of the tool by the names of its parameters: {\"name\": \"files__read\", \"arguments\": {…}}."},
		{`{"name":"files__read","arguments":"{"}`, "`arguments` must be an object with the arguments of the tool by the names of its parameters: {\"name\": \"files__read\", \"arguments\": {…}}."},
		{`{"name":"files__read","arguments":"{\"path\":1,\"path\":2}"}`, "`arguments` must be an object with the arguments of the tool by the names of its parameters: {\"name\": \"files__read\", \"arguments\": {…}}."},
		{`{"name":"files__read","path":"/a","lines":3}`, "call_tool takes `name` and `arguments` only. Put `path`, `lines` into `arguments`: {\"name\": \"files__read\", \"arguments\": {\"path\": …, \"lines\": …}}."},
		{`{"name":"search_tools","arguments":{"query":"x"}}`, "search_tools is no tool to call with call_tool: call it directly."},
		{`{"name":"files__raed"}`, "There is no tool \"files__raed\". Did you mean files__read? Otherwise find the tool with search_tools."},
		{`{"name":"files__secrets"}`, "There is no tool \"files__secrets\". Find the names of tools with search_tools."},
		{`{"name":"files__secret"}`, "There is no tool \"files__secret\". Find the names of tools with search_tools."},
	} {
		f := newFixture(t, Options{Search: true})
		if got := f.call(t, CallTool, tt.arguments); got != "isError: "+tt.want {
			t.Errorf("%s:\n got %s\nwant isError: %s", tt.arguments, got, tt.want)
		}
	}
}

// An error of the inner call is returned as it is, unless the name is unknown.
func TestCallToolReturnsErrors(t *testing.T) {
	f := newFixture(t, Options{Search: true})
	f.fail = wire.Errorf(wire.CodeInvalidParams, "the tool is refused with these arguments")
	if got := f.call(t, CallTool, `{"name":"files__read"}`); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "refused with these arguments") {
		t.Errorf("got %s", got)
	}
}

func TestSplit(t *testing.T) {
	f := newFixture(t, Options{Search: true, Split: true})
	for _, tt := range []struct{ by, tool, want string }{
		{CallReadTool, "files__read", "done"},
		{CallWriteTool, "files__append", "done"},
		{CallDestructiveTool, "files__remove", "done"},
		{CallReadTool, "files__remove", "isError: files__remove was not called: by its annotations it may destroy. Call it with call_destructive_tool."},
		{CallDestructiveTool, "files__read", "isError: files__read was not called: by its annotations it reads. Call it with call_read_tool."},
		{CallDestructiveTool, "files__append", "isError: files__append was not called: by its annotations it writes. Call it with call_write_tool."},
		{CallReadTool, "files__secret", "isError: There is no tool \"files__secret\". Find the names of tools with search_tools."},
	} {
		if got := f.call(t, tt.by, `{"name":"`+tt.tool+`"}`); got != tt.want {
			t.Errorf("%s with %s: got %s, want %s", tt.tool, tt.by, got, tt.want)
		}
	}
}

// An upstream's tool keeps the name of an own tool that the profile does not have.
func TestCallToolOfAnUpstreamWithAnOwnName(t *testing.T) {
	f := newFixture(t, Options{Search: true})
	naming, err := namespace.New("open", "", "__")
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.New(profile.Options{Name: "p", Configured: []profile.Upstream{{Name: "open"}}, Search: true, Own: Items(Options{Search: true})})
	if err != nil {
		t.Fatal(err)
	}
	src := catalog.Source{Naming: naming}
	for _, name := range []string{CallReadTool, CallTool} {
		src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
	}
	f.view = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow}), Profile: p}, []catalog.Source{src}).View(call.Anonymous, nil)
	for name, want := range map[string]string{
		CallReadTool: "done", "open__call_tool": "done",
		CallTool: "isError: call_tool is no tool to call with call_tool: call it directly.",
	} {
		if got := f.call(t, CallTool, `{"name":"`+name+`"}`); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
