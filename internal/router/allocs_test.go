//go:build !race

// The race detector drops items of a sync.Pool at random, so allocations cannot be counted
// under it.

package router

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Refused and absent names get the same answers, except for the name, with the same number of
// allocations.
func TestRefusedAndAbsentCostTheSame(t *testing.T) {
	p := policy.MustNew(policy.Options{Rules: []policy.Rule{
		{Name: "some", Effect: policy.Allow, What: policy.What{Tools: []string{"db__query"}, Resources: []string{"db+row:1"}}},
		{Name: "tools", Effect: policy.Deny, What: policy.What{Tools: []string{"db__d*"}}},
		{Name: "resources", Effect: policy.Deny, What: policy.What{Resources: []string{"files+*"}}},
	}})
	r, _ := worldRouter(t, p, func(worldItem) bool { return true }, func(string) bool { return true })
	who := &call.Principal{Subject: "ann"}
	prompt := func(name string) (method, params string) {
		return wire.MethodComplete, `{"ref":{"type":"ref/prompt","name":"` + name + `"},"argument":{"name":"a","value":""}}`
	}
	by := func(kind call.Kind) func(string) (string, string) {
		return func(name string) (string, string) { return useOf(kind, name, "") }
	}
	with := func(method string) func(string) (string, string) {
		return func(uri string) (string, string) { return method, `{"uri":"` + uri + `"}` }
	}
	type names struct{ refused, absent string }
	passwd, row, memo := names{"files+file:///etc/passwd", "files+file:///etc/passwx"}, names{"db+row:2", "db+row:9"}, names{"memo:y", "memo:z"}
	for _, tt := range []struct {
		what string
		of   func(name string) (method, params string)
		names
	}{
		{"tool", by(call.Tool), names{"db__drop", "db__droq"}},
		{"tool", by(call.Tool), names{"db__insert", "db__inserx"}},
		{"prompt", by(call.Prompt), names{"files__expand", "files__expanx"}},
		{"completion for a prompt", prompt, names{"files__expand", "files__expanx"}},
		{"completion for a template", by(call.Template), names{"db+row:{id}", "db+row:{ix}"}},
		{"completion for a resource", by(call.Template), row},
		{"read", with(wire.MethodResourcesRead), passwd}, {"read", with(wire.MethodResourcesRead), row}, {"read", with(wire.MethodResourcesRead), memo},
		{"metadata", with(wire.MethodResourcesMetadata), passwd}, {"metadata", with(wire.MethodResourcesMetadata), row}, {"metadata", with(wire.MethodResourcesMetadata), memo},
		{"children", with(wire.MethodResourcesList), passwd}, {"children", with(wire.MethodResourcesList), row}, {"children", with(wire.MethodResourcesList), memo},
		{"subscription", with(wire.MethodResourcesSubscribe), passwd}, {"subscription", with(wire.MethodResourcesSubscribe), row}, {"subscription", with(wire.MethodResourcesSubscribe), memo},
	} {
		for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
			cost := func(name string, resumes bool) (string, float64) {
				method, params := tt.of(name)
				c := &call.Call{ID: "r", Method: method, Params: wire.Raw(params), Principal: who, Back: &recorder{}, Client: &call.Client{Key: "c", Revision: rev}}
				subs := NewSubscriptions(r)
				run := func() error {
					_, err := r.Handle(context.Background(), c)
					return err
				}
				switch {
				case resumes:
					run = func() error { return r.Permit(c) }
				case method == wire.MethodResourcesSubscribe:
					run = func() error {
						_, err := subs.Subscribe(context.Background(), c, name, func(string, wire.Raw) {})
						return err
					}
				}
				// The smallest of several counts is used, because pools may be emptied during a run.
				least := math.Inf(1)
				for range 5 {
					least = min(least, testing.AllocsPerRun(100, func() {
						if err := run(); err == nil || err.Error() == "" {
							t.Fatal("the call was answered")
						}
					}))
				}
				return strings.ReplaceAll(fullText(call.Result{}, run()), name, "NAME"), least
			}
			method, _ := tt.of(tt.refused)
			for _, resumes := range []bool{false, true} { // true: a retry of a parked call that was allowed before
				if resumes && !wire.MethodOf(method).Rounds {
					continue
				}
				refused, n := cost(tt.refused, resumes)
				absent, m := cost(tt.absent, resumes)
				if refused != absent || n != m {
					t.Errorf("%s of %s, %s, resumed %v:\nrefused: %v allocations, %s\nabsent:  %v allocations, %s", tt.what, tt.refused, rev, resumes, n, refused, m, absent)
				}
			}
		}
	}
}

// The lines of a call need no memory, in a profile neither.
func TestAuditLinesAllocateNothing(t *testing.T) {
	for _, profile := range []string{"", "coding"} {
		if n := testing.AllocsPerRun(100, auditedCall(t, &Audit{To: discard{}}, profile)); n > 0 {
			t.Errorf("%v allocations in profile %q", n, profile)
		}
	}
}

// The log line of a call needs no memory, in a profile neither.
func TestTheLineOfACallAllocatesNothing(t *testing.T) {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel)
	r := New(Options{Started: closedChan(), Logger: zap.New(core), Metrics: NewMetrics()}, nil)
	c := newCall("tools/call", `{"name":"files__read"}`, nil)
	res := wire.Raw(`{"content":[]}`)
	for _, profile := range []string{"", "coding"} {
		c.Principal = call.Anonymous.In(profile)
		if n := testing.AllocsPerRun(100, func() {
			r.observe(c, &logFields{upstream: "files", item: "files__read", rule: "read"}, 1000, false, res, nil)
		}); n > 0 {
			t.Errorf("%v allocations in profile %q", n, profile)
		}
	}
}

// A disabled audit allocates nothing.
func TestNoAuditNoAllocations(t *testing.T) {
	if n := testing.AllocsPerRun(100, auditedCall(t, nil, "")); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
