package catalog

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
)

// hostileURI returns a URI of at least size bytes with every kind of spelling that
// is expensive to normalize.
func hostileURI(size int) string {
	const piece = `A%2fb//c;x=1/./..%5c\ﬁ%2541+%252e.`
	return "files+file:///" + strings.Repeat(piece, size/len(piece)+1)
}

// longURI returns a canonical URI of at least size bytes.
func longURI(size int) string {
	const piece = "Segment/a%20b/%C3%A9/"
	return "files+file:///" + strings.Repeat(piece, size/len(piece)+1) + "x"
}

// denyingView returns a view of an upstream with a template, under ten deny rules.
func denyingView(tb testing.TB) *View {
	var rules []policy.Rule
	for i := range 10 {
		rules = append(rules, policy.Rule{Name: fmt.Sprint("d", i), Effect: policy.Deny, What: policy.What{Resources: []string{fmt.Sprintf("files+file:///secret%d/*", i)}}})
	}
	p := policy.MustNew(policy.Options{Default: policy.Allow, Rules: rules})
	return Build(Options{Policy: p}, []Source{source(tb, "files", "files", template("file:///{+path}"))}).View(call.Anonymous, nil)
}

func BenchmarkHostileURIs(b *testing.B) {
	for _, bench := range []struct {
		name  string
		uri   string
		count int
	}{
		{"one of 60 KiB", hostileURI(60 << 10), 1},
		{"1000 of 1 KiB", hostileURI(1 << 10), 1000},
		{"one canonical of 8 KiB", longURI(8<<10 - 100), 1},
		{"1000 canonical of 1 KiB", longURI(1 << 10), 1000},
	} {
		b.Run(bench.name, func(b *testing.B) {
			v := denyingView(b)
			b.ReportAllocs()
			for b.Loop() {
				for range bench.count {
					v.Resolve(call.Resource, bench.uri)
				}
			}
		})
	}
}

// The cost of a URI does not depend on its spelling: a refused URI is not parsed, and policy
// reads the others a bounded number of times.
func TestCostOfHostileURIs(t *testing.T) {
	v := denyingView(t)
	for _, c := range []struct {
		name, uri string
		most      float64
	}{
		{"60 KiB", hostileURI(60 << 10), 2}, {"1 KiB", hostileURI(1 << 10), 2}, {"canonical", longURI(8<<10 - 100), 20}, {"canonical, short", longURI(100), 20},
	} {
		if n := testing.AllocsPerRun(20, func() { v.Resolve(call.Resource, c.uri) }); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
	}
}
