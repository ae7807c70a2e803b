package policy

import (
	"regexp"
	"strings"
	"testing"

	"mcpgateway/internal/call"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true},
		{"*", "any/thing", true},
		{"", "", true},
		{"", "a", false},
		{"read", "read", true},
		{"read", "reader", false},
		{"read_*", "read_file", true},
		{"read_*", "read_", true},
		{"read_*", "unread_file", false},
		{"*_file", "read_file", true},
		{"*_file", "read_files", false},
		{"file:///*.txt", "file:///a/b/c.txt", true},
		{"file:///*/b/*", "file:///a/b/", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"*ab*ab*", "ab", false},
		{"*ab*ab*", "xabab", true},
		{"a*b*c", "abcbc", true},
		{"**", "x", true},
		{"a?c", "abc", false},
		{"a?c", "a?c", true},
		{"[ab]", "a", false},
		{"[ab]", "[ab]", true},
		{"{a,b}", "a", false},
		{`a\*`, `a\b`, true},
		{"Read", "read", false},
	}
	for _, tt := range tests {
		if got := compile(tt.pattern).match(tt.s); got != tt.want {
			t.Errorf("%q on %q: %v, want %v", tt.pattern, tt.s, got, tt.want)
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b*a", "abba")
	f.Add("**a", "xa")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 100 || len(s) > 1000 {
			return
		}
		// A regular expression says what a glob means: the s flag lets a dot
		// stand for line breaks too. It reads runes, so the text must be valid.
		pattern, s = strings.ToValidUTF8(pattern, ""), strings.ToValidUTF8(s, "")
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		want := regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(s)
		if got := compile(pattern).match(s); got != want {
			t.Errorf("%q on %q: %v, want %v", pattern, s, got, want)
		}
	})
}

func TestDecide(t *testing.T) {
	upstreams := map[string]Upstream{
		"files": {
			Tools:     Globs{Allow: []string{"read_*", "list_*"}, Deny: []string{"*_secret"}},
			Prompts:   Globs{Allow: []string{}},
			Resources: Globs{Deny: []string{"file:///etc/*"}},
		},
	}
	tests := []struct {
		name     string
		fallback Effect
		item     Item
		want     Decision
	}{
		{"allowed by glob", Allow, Item{Kind: call.Tool, Upstream: "files", Native: "read_file"}, Decision{Allow, RuleDefault}},
		{"matched by no allow glob", Allow, Item{Kind: call.Tool, Upstream: "files", Native: "write_file"}, Decision{Deny, RuleUpstreamAllow}},
		{"deny wins over allow", Allow, Item{Kind: call.Tool, Upstream: "files", Native: "read_secret"}, Decision{Deny, RuleUpstreamDeny}},
		{"public names are not judged", Allow, Item{Kind: call.Tool, Upstream: "files", Public: "read_x", Native: "write"}, Decision{Deny, RuleUpstreamAllow}},
		{"an empty allow list lets nothing through", Allow, Item{Kind: call.Prompt, Upstream: "files", Native: "p"}, Decision{Deny, RuleUpstreamAllow}},
		{"no allow list lets everything through", Allow, Item{Kind: call.Resource, Upstream: "files", Native: "file:///a"}, Decision{Allow, RuleDefault}},
		{"slashes match", Allow, Item{Kind: call.Resource, Upstream: "files", Native: "file:///etc/ssl/key"}, Decision{Deny, RuleUpstreamDeny}},
		{"a template by its text", Allow, Item{Kind: call.Template, Upstream: "files", Native: "file:///etc/{name}"}, Decision{Deny, RuleUpstreamDeny}},
		{"an upstream without globs", Allow, Item{Kind: call.Tool, Upstream: "other", Native: "x"}, Decision{Allow, RuleDefault}},
		{"the default denies", Deny, Item{Kind: call.Tool, Upstream: "other", Native: "x"}, Decision{Deny, RuleDefault}},
		{"an allow glob grants nothing", Deny, Item{Kind: call.Tool, Upstream: "files", Native: "read_file"}, Decision{Deny, RuleDefault}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(Options{Default: tt.fallback, Upstreams: upstreams})
			if got := p.Decide(call.Anonymous, tt.item); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got := p.MaySee(call.Anonymous, tt.item.Upstream); got != (tt.fallback == Allow) {
				t.Errorf("MaySee: %v", got)
			}
		})
	}
}

func TestZeroOptionsDeny(t *testing.T) {
	if d := New(Options{}).Decide(call.Anonymous, Item{Native: "x"}); d.Effect != Deny || d.Effect.String() != "deny" {
		t.Errorf("the zero policy: %+v", d)
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	p := New(Options{Default: Allow, Upstreams: map[string]Upstream{
		"files": {Tools: Globs{Allow: []string{"a*b*c", "read_*"}, Deny: []string{"*x*y*"}}},
	}})
	it := Item{Kind: call.Tool, Upstream: "files", Public: "files__read_file", Native: "read_file"}
	if n := testing.AllocsPerRun(100, func() { p.Decide(call.Anonymous, it) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := New(Options{Default: Allow, Upstreams: map[string]Upstream{
		"files": {Tools: Globs{Allow: []string{"*"}, Deny: []string{"*_secret", "admin_*"}}},
	}})
	it := Item{Kind: call.Tool, Upstream: "files", Native: "read_file"}
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(call.Anonymous, it)
	}
}
