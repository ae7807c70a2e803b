package conform

import (
	"bytes"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// FuzzCheck checks that repaired documents are valid JSON and stable, that no other mode
// changes a document, and that the modes find the same violations.
func FuzzCheck(f *testing.F) {
	for _, file := range corpus(f) {
		f.Add([]byte(file.section("sent")))
	}
	f.Add([]byte(`{"content":[{"type":"image","data":"\/\u0041AA=","isError":true}],"isError":"x","isError":1}`))
	schema := toolschema.New(wire.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if wire.Check(in, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		kept := bytes.Clone(in)
		for _, method := range []string{wire.MethodToolsCall, wire.MethodPromptsGet, wire.MethodResourcesRead, wire.MethodComplete} {
			for _, output := range []*toolschema.Schema{nil, schema} {
				s := ResultChecker{Method: method, Revision: wire.Rev20251125, Output: output, Asked: namespace.Asked{Native: "a:b", Public: "a:b"}}
				warned := s.Check(in)
				if &warned.Result[0] != &in[0] || warned.Err != nil {
					t.Fatalf("%s: warn changed the result", method)
				}
				s.Mode = Strict
				if v := s.Check(in); v.Err == nil && wire.Check(v.Result, wire.Limits{}, wire.Lenient) != nil {
					t.Fatalf("%s: strict: %s", method, v.Result)
				}
				s.Mode = Repair
				v := s.Check(in)
				if !bytes.Equal(in, kept) {
					t.Fatalf("%s: the document itself was changed", method)
				}
				if len(warned.Violations) == 0 && (len(v.Violations) > 0 || &v.Result[0] != &in[0]) {
					t.Fatalf("%s: repair finds %v where warn finds nothing", method, v.Violations)
				}
				if v.Err != nil {
					continue
				}
				if err := wire.Check(v.Result, wire.Limits{}, wire.Lenient); err != nil {
					t.Fatalf("%s: %v: %s\nbecame %s", method, err, in, v.Result)
				}
				if again := s.Check(v.Result); again.Err != nil || !bytes.Equal(again.Result, v.Result) {
					t.Fatalf("%s:\n%s\nbecame\n%s\nand then\n%s %v", method, in, v.Result, again.Result, again.Err)
				}
			}
		}
		for kind := range call.Kind(call.Kinds) {
			lists := ItemChecker{Mode: Repair, Revision: wire.Rev20251125}
			it := lists.Check(kind, in)
			if it.Unusable != "" {
				continue
			}
			again := lists.Check(kind, it.Item)
			if again.Unusable != "" || !bytes.Equal(again.Item, it.Item) {
				t.Fatalf("%s:\n%s\nbecame\n%s\nand then\n%s %s", kind, in, it.Item, again.Item, again.Unusable)
			}
		}
	})
}
