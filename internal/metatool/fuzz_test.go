package metatool

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Whatever a model writes, an own tool answers with a result: valid JSON of bounded size, in
// which nothing shows that there is a tool which policy hides.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{"query":"read a file","limit":1,"offset":1,"upstream":"files","annotations":{"readOnlyHint":true}}`,
		`{"names":["files__read","none"]}`, `{"names":"[\"files__read\"]"}`,
		`{"name":"files__read","arguments":{"path":"/a"}}`, `{"name":"files__read","arguments":"{\"path\":1}"}`,
		`{"arguments":{"name":"files__raed","arguments":{}}}`, `{"name":"files__read","path":"/a"}`, `{"query":["a",1,null]}`, `{}`,
	} {
		for tool := range byte(5) {
			f.Add(tool, seed)
		}
	}
	x := newFixture(f, Options{Search: true, Split: true})
	one := newFixture(f, Options{Search: true})
	f.Fuzz(func(t *testing.T, tool byte, arguments string) {
		name := []string{SearchTools, DescribeTools, CallReadTool, CallDestructiveTool, CallTool}[tool%5]
		fixture := x
		if name == CallTool {
			fixture = one
		}
		fixture.inner = nil
		if len(arguments) > 1<<12 || wire.Check([]byte(arguments), wire.Limits{}, wire.Strict) != nil || wire.ValueOf(wire.Raw(arguments)).Kind() != '{' {
			return
		}
		res, err := fixture.result(t, name, `{"name":"`+name+`","arguments":`+arguments+`}`)
		if err != nil {
			t.Fatalf("%s %s: %v", name, arguments, err)
		}
		v := wire.ValueOf(res.Raw)
		if v.Get("content").Kind() != '[' || len(res.Raw) > 64<<10 {
			t.Errorf("%s %s: %d bytes: %.300s", name, arguments, len(res.Raw), res.Raw)
		}
		if !strings.Contains(strings.ToLower(arguments), "sec") && !strings.Contains(arguments, `\u`) && strings.Contains(string(res.Raw), "secret") {
			t.Errorf("%s %s: a hidden tool shows: %s", name, arguments, res.Raw)
		}
		for _, sent := range fixture.inner {
			c := wire.ValueOf(wire.Raw(sent))
			if wire.Check([]byte(sent), wire.Limits{}, wire.Strict) != nil || c.Get("name").Kind() != '"' || c.Get("arguments").Kind() != '{' {
				t.Errorf("%s %s: the inner call is %s", name, arguments, sent)
			}
			if target, ok := fixture.view.Resolve(call.Tool, c.Get("name").Str()); ok && (target.Part.Own() || name == CallReadTool && effectOf(target.Entry.Raw) != reads) {
				t.Errorf("%s called %s", name, target.Public)
			}
		}
	})
}
