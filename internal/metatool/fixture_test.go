package metatool

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// fixture is a view with own tools, and a pipeline that records the inner calls.
type fixture struct {
	*Tools
	view  *catalog.View
	inner []string // the params of the inner calls
	fail  error
}

// upstreamOf returns a source with these tools.
func upstreamOf(t testing.TB, name string, tools ...string) catalog.Source {
	t.Helper()
	naming, err := namespace.New(name, name, "__")
	if err != nil {
		t.Fatal(err)
	}
	s := catalog.Source{Naming: naming}
	for _, tool := range tools {
		s.Items[call.Tool] = append(s.Items[call.Tool], wire.Raw(tool))
	}
	return s
}

const (
	readTool   = `{"name":"read","description":"Reads a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where it is."},"lines":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`
	appendTool = `{"name":"append","description":"Appends to a file.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}}`
	removeTool = `{"name":"remove","description":"Removes a file.","inputSchema":{"type":"object"}}`
	secretTool = `{"name":"secret","description":"Reads a secret file.","inputSchema":{"type":"object"}}`
)

// newFixture returns a view of these tools, and of one that policy hides.
func newFixture(t testing.TB, o Options) *fixture {
	t.Helper()
	files := profile.Upstream{Name: "files"}
	selects, err := profile.New(profile.Options{
		Name: "p", Configured: []profile.Upstream{files}, Search: o.Search, Own: Items(o), Introduction: Introduction(o),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "hidden", Effect: policy.Deny, What: policy.What{Tools: []string{"*secret*"}}},
	}})
	table := catalog.Build(catalog.Options{Policy: p, Profile: selects}, []catalog.Source{upstreamOf(t, "files", readTool, appendTool, removeTool, secretTool)})
	return &fixture{Tools: New(), view: table.View(call.Anonymous, nil)}
}

// call calls an own tool, and returns its result as text, or the error.
func (f *fixture) call(t testing.TB, tool, arguments string) string {
	t.Helper()
	return f.send(t, tool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

func (f *fixture) send(t testing.TB, tool, params string) string {
	t.Helper()
	res, err := f.result(t, tool, params)
	if err != nil {
		return "error: " + err.Error()
	}
	v := wire.ValueOf(res.Raw)
	var text strings.Builder
	if v.Get("isError").Bool() {
		text.WriteString("isError: ")
	}
	for el := range v.Get("content").Elements() {
		text.WriteString(el.Get("text").Str())
	}
	return text.String()
}

func (f *fixture) result(t testing.TB, tool, params string) (call.Result, error) {
	t.Helper()
	if err := wire.Check([]byte(params), wire.Limits{}, wire.Strict); err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	target, ok := f.view.Resolve(call.Tool, tool)
	if !ok {
		t.Fatalf("there is no %s", tool)
	}
	c := &call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(params), Principal: call.Anonymous}
	res, err := f.Call(t.Context(), c, target, f.view, func(_ context.Context, c *call.Call) (call.Result, error) {
		f.inner = append(f.inner, string(c.Params))
		name := wire.ValueOf(c.Params).Get("name").Str()
		if _, ok := f.view.Resolve(call.Tool, name); !ok {
			return call.Result{}, wire.Errorf(wire.CodeInvalidParams, "unknown tool: %q", name)
		}
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"text","text":"done"}]}`)}, f.fail
	})
	if err == nil {
		if err := wire.Check(res.Raw, wire.Limits{}, wire.Strict); err != nil {
			t.Fatalf("the result is no JSON: %v: %s", err, res.Raw)
		}
	}
	return res, err
}
