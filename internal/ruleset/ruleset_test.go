package ruleset

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
)

func TestItems(t *testing.T) {
	cfg, err := config.Parse("gateway.yaml", []byte(`
upstreams:
  plain: {command: a}
  ruled:
    command: a
    conformance: repair
    validate_input: true
    sanitize: [invisible, ansi]
    tools: {override: {"a b": {name: ab, title: T, description: D}, c: {hidden: true}}}
    prompts: {override: {p: {name: q}}}
  off: {command: a, conformance: off, sanitize: [control]}
  strict: {command: a, conformance: strict}
`), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	none := map[string]catalog.Override{}
	want := []catalog.Rules{
		{Conformance: conform.Warn, ToolOverride: none, PromptOverride: none},
		{
			Conformance: conform.Repair, ValidateInput: true, Sanitize: sanitize.ANSI | sanitize.Invisible,
			ToolOverride:   map[string]catalog.Override{"a b": {Name: "ab", Title: "T", Description: "D"}, "c": {Hidden: true}},
			PromptOverride: map[string]catalog.Override{"p": {Name: "q"}},
		},
		{Conformance: conform.Off, Sanitize: sanitize.Control, ToolOverride: none, PromptOverride: none},
		{Conformance: conform.Strict, ToolOverride: none, PromptOverride: none},
	}
	for i, u := range cfg.Upstreams {
		if diff := cmp.Diff(want[i], Items(u)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", u.Name, diff)
		}
	}
}

// A rate without burst lets as many calls through at once as it names.
func TestBurstIsTheNumberOfTheRate(t *testing.T) {
	for want, limit := range map[int]config.Limit{
		2: {Rate: "2/m"}, 1000: {Rate: "1000/h"}, 100: {Rate: "100/s"}, 5: {Rate: "2/m", Burst: 5}, 1: {Rate: "2/m", Burst: 1},
	} {
		if got := limitOf(limit).Burst; got != want {
			t.Errorf("%+v: burst is %d, want %d", limit, got, want)
		}
	}
}

// Each effect of policy can be written in a configuration, and the documentation says which one wins.
func TestEffectsOfTheConfiguration(t *testing.T) {
	var names []string
	for _, e := range policy.Effects() {
		names = append(names, e.String())
	}
	for _, key := range config.Keys() {
		switch key.Path {
		case "policy.rules[].effect":
			if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(strings.Split(key.Type, " | ")))); diff != "" {
				t.Errorf("effects of rules (-policy +config):\n%s", diff)
			}
		case "policy.rules":
			if want := names[0] + " wins, then " + strings.Join(names[1:], ", then ") + ", then the default"; !strings.Contains(key.Doc, want) {
				t.Errorf("the documentation of %s is %q, without %q", key.Path, key.Doc, want)
			}
		}
	}
}

// A view starts the upstreams of its profile, and those whose items may have any name.
func TestUpstreamsOfProfile(t *testing.T) {
	cfg, err := config.Parse("gateway.yaml", []byte(`
upstreams: {a: {command: x, tags: [t]}, b: {command: x}, c: {command: x, prefix: ""}}
profiles: {one: {upstreams: [b]}, tagged: {tags: [t]}, all: {}}
`), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for profile, want := range map[string]string{"": "a b c", "one": "b c", "tagged": "a c", "all": "a b c"} {
		var names []string
		for _, u := range UpstreamsOf(cfg, profile) {
			names = append(names, u.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("profile %q needs %q, want %q", profile, got, want)
		}
	}
}

func TestProfiles(t *testing.T) {
	cfg, err := config.Parse("gateway.yaml", []byte(`
upstreams: {a: {command: x}, b: {command: x}}
profiles: {zeta: {upstreams: [a], max_result: 4KiB}, default: {upstreams: [b]}, alpha: {}}
`), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for id, p := range r.Profiles() {
		if ids = append(ids, id); p != r.Profile(id) || !r.HasProfile(id) {
			t.Errorf("profile %q is another one by its id", id)
		}
	}
	if got := strings.Join(ids, " "); got != " zeta alpha" || r.Profile("none") != nil || r.HasProfile("none") {
		t.Errorf("profiles %q", got)
	}
	if len(r.Results) != 1 || r.Results["zeta"].Max != 4096 {
		t.Errorf("rules for results %+v", r.Results)
	}

	// A file that cannot be used fails the configuration, and every upstream may be needed.
	cfg.Profiles[0].ToolFiles = []config.ToolFile{{File: "tools/bad.star", Source: "nonsense("}}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "profiles."+cfg.Profiles[0].Name+".tools_from[0]: tools/bad.star: ") {
		t.Errorf("error is %v", err)
	}
	if got := len(UpstreamsOf(cfg, "zeta")); got != 2 {
		t.Errorf("%d upstreams", got)
	}
}
