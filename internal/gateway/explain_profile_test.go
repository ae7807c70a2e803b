package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// explain says what in a profile leaves an item out; list and check show what it has.
func TestInspectionOfProfiles(t *testing.T) {
	read, write, find := newScripted(t, "read"), newScripted(t, "write"), newScripted(t, "find")
	g := inProcess(t, `
upstreams:
  a: `+read.entry("")+`
  w: `+write.entry("")+`
  b: `+find.entry("")+`
profiles:
  default: {upstreams: [a, w]}
  narrow: {upstreams: [a, w], tools: {allow: ["*"], deny: ["*write"]}}
  listed: {tools: [a__read], prompts: ["a__*"], catalog: search, pinned: [a__raed]}
  short: {upstreams: [b], names: short}
  nothing: {tools: []}
`, t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := g.RunInProcess(ctx, func(ctx context.Context, p *InProcess) error {
		if err := p.WaitStarted(ctx); err != nil {
			return err
		}
		for _, tt := range []struct{ profile, tool, rule, reason string }{
			{"", "a__read", policy.RuleDefault, ""},
			{"", "b__find", policy.RuleProfileAllow, "select anything of b"},
			{"narrow", "a__read", policy.RuleDefault, ""},
			{"narrow", "w__write", policy.RuleProfileDeny, "deny glob"},
			{"narrow", "b__find", policy.RuleProfileAllow, "the profile narrow"},
			{"listed", "a__read", policy.RuleDefault, ""},
			{"short", "find", policy.RuleDefault, ""},
			{"short", "b__find", policy.RuleDefault, ""},
			{"listed", "b__find", policy.RuleProfileAllow, "allow globs"},
		} {
			e, ok := p.Explain(inspect.Question{Kind: call.Tool, Public: tt.tool, Principal: call.Anonymous.In(tt.profile), Revision: wire.LatestModern})
			if !ok || e.Decision.Rule != tt.rule || e.Decision.Allowed() != (tt.reason == "") {
				t.Errorf("%+v: %+v, %v", tt, e.Decision, ok)
				continue
			}
			if tt.reason != "" && (e.Steps[0].Rule != tt.rule || !strings.Contains(e.Steps[0].Reason, tt.reason)) {
				t.Errorf("%+v: steps %+v", tt, e.Steps)
			}
		}
		for profile, want := range map[string]string{"": "a__read w__write", "narrow": "a__read", "short": "find", "nothing": ""} {
			var names []string
			for _, e := range p.Table(profile).View(call.Anonymous.In(profile), nil).Entries(call.Tool) {
				names = append(names, e.Public)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("profile %q has %q", profile, got)
			}
		}
		report := p.Check(ctx, inspect.CheckOptions{Profiles: []string{"default", "narrow", "nothing"}})
		if len(report.Profiles) != 3 || report.Profiles[0].Items["tools"] != 2 || report.Profiles[1].Path != "/mcp/narrow" || report.Profiles[1].Items["tools"] != 1 {
			t.Errorf("profiles %+v", report.Profiles)
		}
		empty := slices.IndexFunc(report.Findings, func(f inspect.Finding) bool { return f.What == "empty" })
		if empty < 0 || report.Findings[empty].Profile != "nothing" || report.Findings[empty].Path != "profiles.nothing" {
			t.Errorf("findings %+v", report.Findings)
		}
		var globs []string
		for _, glob := range g.generation.Load().UnmatchedGlobs(p.Everything(), func(string) bool { return true }) {
			globs = append(globs, glob.String())
		}
		if want := `profiles.listed.pinned[0] "a__raed" matches nothing that is listed; did you mean "a__read"?`; !slices.Contains(globs, want) {
			t.Errorf("globs %q", globs)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
