package conform

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

var update = flag.Bool("update", false, "write the goldens anew")

// faulty is one file of the corpus: prose, and these sections:
//
//	method    of the request, or of the list
//	revision  of the upstream; default 2025-11-25
//	tool      the called tool, as listed
//	resource  a listed resource
//	sent      the document of the upstream
//	found     the violations
//	warn      the document for the client in each mode: the result, the JSON-RPC error,
//	repair    or the items of a list; "as sent" if no byte differs
//	strict
type faulty struct {
	*txtar.Archive
	name string
}

func (f faulty) section(name string) string {
	for _, file := range f.Files {
		if file.Name == name {
			return strings.TrimSuffix(string(file.Data), "\n")
		}
	}
	return ""
}

// corpus returns the files of the corpus.
func corpus(tb testing.TB) []faulty {
	tb.Helper()
	names, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	var out []faulty
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, faulty{a, strings.TrimSuffix(filepath.Base(name), ".txtar")})
	}
	return out
}

func (f faulty) revision() wire.Revision {
	if rev := f.section("revision"); rev != "" {
		return wire.Revision(rev)
	}
	return wire.Rev20251125
}

// listed is a list of one resource.
type listed struct{ item wire.Raw }

func (l listed) Listed(uri string) wire.Raw {
	if wire.ValueOf(l.item).Get("uri").IsString(uri) {
		return l.item
	}
	return nil
}

// asked is the resource that reads of the corpus request.
const asked = "corpus:asked"

func (f faulty) subject(mode Mode) ResultChecker {
	s := ResultChecker{Mode: mode, Revision: f.revision(), Method: f.section("method")}
	if tool := f.section("tool"); tool != "" {
		s.Output = toolschema.New(wire.ValueOf(wire.Raw(tool)).Get("outputSchema").Raw())
	}
	if item := f.section("resource"); item != "" {
		s.Resources = listed{wire.Raw(item)}
	}
	if s.Method == wire.MethodResourcesRead {
		s.Asked = namespace.Asked{Native: asked, Public: asked}
	}
	return s
}

// listKinds are the kinds of items by list method.
var listKinds = map[string]call.Kind{
	wire.MethodToolsList: call.Tool, wire.MethodPromptsList: call.Prompt,
	wire.MethodResourcesList: call.Resource, wire.MethodTemplatesList: call.Template,
}

// outcome returns the document for the client, and the violations.
func (f faulty) outcome(mode Mode) (got string, found []string) {
	sent := wire.Raw(f.section("sent"))
	kind, isList := listKinds[f.section("method")]
	if !isList {
		v := f.subject(mode).Check(sent)
		if v.Err != nil {
			return string(v.Err.Append(nil)), faults(v.Violations)
		}
		if bytes.Equal(v.Result, sent) {
			return "as sent", faults(v.Violations)
		}
		return string(v.Result), faults(v.Violations)
	}
	lists := ItemChecker{Mode: mode, Revision: f.revision(), Budget: toolschema.NewBudget()}
	var out []string
	for m := range wire.ValueOf(sent).Members() {
		for el := range m.Value.Elements() {
			it := lists.Check(kind, el.Raw())
			found = append(found, faults(it.Violations)...)
			if it.Unusable != "" {
				out = append(out, fmt.Sprintf("left out: %s %s", it.UnusableKind, it.Unusable))
				continue
			}
			out = append(out, string(it.Item))
		}
	}
	return strings.Join(out, "\n"), found
}

func faults(findings []Violation) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Kind.String()+" "+f.String())
	}
	return out
}

var modes = []struct {
	name string
	mode Mode
}{{"warn", Warn}, {"repair", Repair}, {"strict", Strict}}

// TestCorpus compares violations and repairs with the golden files.
func TestCorpus(t *testing.T) {
	files := corpus(t)
	if len(files) < 60 {
		t.Fatalf("the corpus has %d files", len(files))
	}
	for _, f := range files {
		t.Run(f.name, func(t *testing.T) {
			_, found := f.outcome(Warn)
			want := map[string]string{"found": strings.Join(found, "\n")}
			for _, m := range modes {
				want[m.name], _ = f.outcome(m.mode)
			}
			if *update {
				f.write(t, want)
				return
			}
			if len(found) == 0 && !strings.Contains(want["warn"], "left out") {
				t.Error("nothing was found")
			}
			for name, got := range want {
				if diff := cmp.Diff(f.section(name), got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if got, _ := f.outcome(Off); got != "as sent" && !strings.Contains(f.section("method"), "list") {
				t.Errorf("off: %s", got)
			}
		})
	}
}

func (f faulty) write(t *testing.T, sections map[string]string) {
	t.Helper()
	f.Files = slices.DeleteFunc(f.Files, func(file txtar.File) bool { _, ours := sections[file.Name]; return ours })
	for _, name := range []string{"found", "warn", "repair", "strict"} {
		f.Files = append(f.Files, txtar.File{Name: name, Data: []byte(sections[name] + "\n")})
	}
	if err := os.WriteFile(filepath.Join("testdata/faults", f.name+".txtar"), txtar.Format(f.Archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRepairIsDone checks that repaired results are valid JSON, do not have the repaired
// violations, and are not repaired again.
func TestRepairIsDone(t *testing.T) {
	for _, f := range corpus(t) {
		if _, isList := listKinds[f.section("method")]; isList {
			continue
		}
		first := f.subject(Repair).Check(wire.Raw(f.section("sent")))
		if first.Err != nil {
			continue
		}
		if !json.Valid(first.Result) {
			t.Fatalf("%s: %s", f.name, first.Result)
		}
		s := f.subject(Repair)
		again := s.Check(first.Result)
		if again.Err != nil || !bytes.Equal(again.Result, first.Result) {
			t.Errorf("%s: again:\n%s\nbecame\n%s %v", f.name, first.Result, again.Result, again.Err)
		}
		for _, fault := range again.Violations {
			if fault.Repaired {
				t.Errorf("%s: still there: %s", f.name, fault)
			}
		}
	}
}
