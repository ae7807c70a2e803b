package policy

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Any text compiles to a condition or to diagnostics with positions. A condition that is decided without
// the arguments, as for lists, is decided in the same way with any arguments.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		`args.a == 1`, `tool.name.startsWith("db__") && !has(args.force)`, `"staff" in principal.groups || args.n > 3`, `tool.annotations.readOnlyHint`,
		`args.path.matches("^/srv/") && size(args) < 5`, `request.era == "modern" ? principal.claims.level > 2 : false`, `[args.a, 1].all(x, x == 1)`, `"ä" == `, `resource.uri`,
	} {
		f.Add(text, []byte(`{"a":1,"n":4,"path":"/srv/x"}`))
	}
	f.Fuzz(func(t *testing.T, text string, args []byte) {
		if wire.Check(args, wire.Limits{Depth: 100}, wire.Strict) != nil {
			args = []byte(`{}`)
		}
		c, diagnostics := NewCondition(text)
		if c == nil {
			if len(diagnostics) == 0 {
				t.Errorf("%q: no condition and no diagnostics", text)
			}
			for _, d := range diagnostics {
				if d.Line < 1 || d.Col < 1 || d.Msg == "" {
					t.Errorf("%q: the diagnostic %+v has no position or text", text, d)
				}
			}
			return
		}
		for _, who := range []*call.Principal{call.Anonymous, alice} {
			for _, it := range []Item{query, doc, greet} {
				from := Caller{Principal: who, Revision: wire.Rev20251125}
				about := func(req *Request) *vars {
					return &vars{caller: &from, item: &it, public: it.Public, about: it.Raw, req: *req}
				}
				listed := about(&Request{})
				listed.open = openArgs
				called := about(&Request{Method: wire.MethodToolsCall, Params: withArgs(string(args))})
				without, with := c.eval(listed), c.eval(called)
				if with == maybe {
					t.Errorf("%q: the outcome for a call is unknown", text)
				}
				if (without == yes || without == no) && with != without {
					t.Errorf("%q: outcome %d without arguments, %d with %s", text, without, with, args)
				}
			}
		}
	})
}
