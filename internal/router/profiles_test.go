package router

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// anyRequests returns requests that try everything there is in the world.
func anyRequests() (all [][2]string) {
	all = append(all, [2]string{wire.MethodDiscover, `{}`})
	for _, it := range world {
		for _, public := range []string{it.Public, it.Public + "x", it.Native} {
			method, params := useOf(it.Kind, public, "")
			all = append(all, [2]string{method, params})
			for _, method := range byURI {
				all = append(all, [2]string{method, `{"uri":` + string(wire.String(public)) + `}`})
			}
		}
	}
	return all
}

// A principal in a profile gets, for every request, what a gateway would answer that has
// nothing but the table of that profile. In a profile that does not exist, nothing is there.
func TestProfilesHaveTablesOfTheirOwn(t *testing.T) {
	p := policy.MustNew(policy.Options{Default: policy.Allow})
	everything := func(worldItem) bool { return true }
	profiles := map[string]struct {
		item     func(worldItem) bool
		upstream func(string) bool
	}{
		"":      {everything, func(string) bool { return true }},
		"tools": {func(it worldItem) bool { return it.Kind == call.Tool }, func(string) bool { return true }},
		"files": {everything, func(up string) bool { return up == "files" }},
		"gone":  {everything, func(string) bool { return false }}, // it has no table
	}
	whole, ups := worldRouter(t, p, everything, func(string) bool { return true })
	routes := *whole.Routes()
	routes.Profiles = make(map[string]*catalog.Table)
	tables := make(map[string]*catalog.Table)
	for name, keep := range profiles {
		tables[name] = catalog.Build(catalog.Options{Policy: p, PageItems: 1}, gatewaytest.WorldSources(t, keep.item, keep.upstream))
		if name != "" && name != "gone" {
			routes.Profiles[name] = tables[name]
		}
	}
	whole.Swap(&routes)
	started := make(chan struct{})
	close(started)
	for name, keep := range profiles {
		alone := New(Options{Started: started, Logger: zap.NewNop(), Metrics: NewMetrics()},
			&Routes{Table: tables[name], Upstreams: routes.Upstreams, Subscribers: routes.Subscribers})
		for _, who := range []*call.Principal{call.Anonymous, {Subject: "ann", AuthMethod: "api-key"}} {
			for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
				requests, shown := lists(whole, who.In(name), rev)
				requests = append(requests, anyRequests()...)
				want := transcript(alone, who, rev, requests)
				for _, up := range ups {
					up.got = nil
				}
				if diff := cmp.Diff(want, transcript(whole, who.In(name), rev, requests)); diff != "" {
					t.Fatalf("profile %q, %s, %s (-a gateway of that profile alone +profile):\n%s", name, who.Subject, rev, diff)
				}
				if (len(shown) == 0) != (name == "gone") {
					t.Errorf("profile %q lists %v", name, shown)
				}
				for _, up := range ups {
					for _, got := range up.got {
						if !keep.upstream(up.name) || name == "tools" && strings.HasPrefix(got, wire.MethodPromptsGet) {
							t.Errorf("profile %q: %s reached %s", name, got, up.name)
						}
					}
				}
			}
		}
	}
}

// A caller does not multiply limits by using several profiles.
func TestLimitsCountForAllProfiles(t *testing.T) {
	l := &policy.Limit{Rule: "r", Rate: 1, Burst: 1}
	ann := &call.Principal{Subject: "ann", AuthMethod: "api-key"}
	part := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{})}, []catalog.Source{filesSource(t)}).Parts()[0]
	target := catalog.Target{Part: part}
	one := limitKey(l.Per, &call.Call{Principal: ann}, target)
	two := limitKey(l.Per, &call.Call{Principal: ann.In("coding")}, target)
	if one != two || one == limitKey(l.Per, &call.Call{Principal: &call.Principal{Subject: "bob", AuthMethod: "api-key"}}, target) {
		t.Errorf("keys %q and %q", one, two)
	}
}

// The log and the audit say in which profile a call was made. For the default profile they
// are what they were without profiles.
func TestLogAndAuditNameTheProfile(t *testing.T) {
	to := &fakeAuditor{}
	core, logs := observer.New(zap.DebugLevel)
	h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: to}, byRules...)
	h.logTo(zap.New(core))
	routes := *h.Routes()
	routes.Profiles = map[string]*catalog.Table{"coding": routes.Table}
	h.Swap(&routes)
	said := func(profile string) (audit []string, log map[string]any) {
		for _, request := range [][2]string{
			{wire.MethodToolsCall, `{"name":"files__read"}`}, {wire.MethodToolsCall, `{"name":"files__read","requestState":"x"}`},
			{wire.MethodTasksGet, `{"taskId":"x"}`},
		} {
			c := newCall(request[0], request[1], &recorder{})
			c.Principal = call.Anonymous.In(profile)
			_, _ = h.Handle(t.Context(), c) // the lines have the outcome
		}
		for _, l := range logs.TakeAll() {
			if got, _ := l.ContextMap()["profile"].(string); got != profile {
				t.Errorf("in profile %q: %q has the profile %q", profile, l.Message, got)
			}
			log = l.ContextMap()
		}
		return to.take(t), log
	}
	plain, log := said("")
	if _, ok := log["profile"]; ok || len(plain) < 3 || strings.Contains(strings.Join(plain, ""), "profile") {
		t.Errorf("the lines name the default profile: %v, %s", log, plain)
	}
	inProfile, log := said("coding")
	if log["profile"] != "coding" {
		t.Errorf("the line of the log is %v", log)
	}
	for i, line := range inProfile {
		want := strings.Replace(plain[i], `"proof":"none"}`, `"proof":"none"},"profile":"coding"`, 1)
		if line != want {
			t.Errorf("the audit has %s, want %s", line, want)
		}
	}
}
