package router

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/script"
	"mcpgateway/internal/wire"
)

// searchRouter returns a worldRouter whose default profile lists the gateway's own tools alone.
func searchRouter(t *testing.T, p *policy.Policy, o metatool.Options, docs *catalog.Docs, keepItem func(worldItem) bool, keepUpstream func(string) bool) (*Router, map[string]*worldUpstream) {
	sources := gatewaytest.WorldSources(t, keepItem, keepUpstream)
	ups := map[string]*worldUpstream{}
	routes := &Routes{Upstreams: map[string]Upstream{}}
	selects := profile.Options{Name: "default", Search: true, Own: metatool.Items(o), Introduction: metatool.Introduction(o)}
	for _, src := range sources {
		name := src.Naming.Upstream()
		ups[name] = &worldUpstream{name: name, hidden: func(it worldItem) bool { return !keepItem(it) }}
		routes.Upstreams[name] = ups[name]
		selects.Configured = append(selects.Configured, profile.Upstream{Name: name})
	}
	compiled, err := profile.New(selects)
	if err != nil {
		t.Fatal(err)
	}
	routes.Table = catalog.Build(catalog.Options{Policy: p, Profile: compiled, Docs: docs}, sources)
	started := make(chan struct{})
	close(started)
	tools := metatool.New()
	tools.Scripts = func() *metatool.Scripts { return &metatool.Scripts{Limits: scriptLimits} }
	return New(Options{Started: started, Logger: zap.NewNop(), Metrics: NewMetrics(), OwnTools: tools}, routes), ups
}

var scriptLimits = script.Limits{Steps: 100_000, Calls: 20, Parallel: 4, Time: time.Minute, Output: 64 << 10}

// callersOf returns the own tools that call others.
func callersOf(o metatool.Options) []string {
	if o.Split {
		return []string{metatool.CallReadTool, metatool.CallWriteTool, metatool.CallDestructiveTool}
	}
	return []string{metatool.CallTool}
}

// ownRequests returns calls of own tools about every tool of the world.
func ownRequests(o metatool.Options) (requests [][2]string) {
	add := func(tool, format string, args ...any) {
		requests = append(requests, [2]string{wire.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, fmt.Sprintf(format, args...))})
	}
	run := func(format string, args ...any) {
		add(metatool.RunScript, `{"script":%s}`, wire.String(fmt.Sprintf(format, args...)))
	}
	for _, it := range world {
		for _, name := range []string{it.Public, it.Native, it.Public + "x"} {
			run("[search(%q), len(search('a', upstream = %q))]", name, it.Upstream)
			run("describe(%q, %q)", name, world[0].Public)
			run("r = try_call(%q)\n[r.ok, r.error, r.text]", name)
			run("call(%q, {'n': 1})", name)
			run("[(r.ok, r.error) for r in try_parallel([(%q, {}), 'none'])]", name)
			add(metatool.SearchTools, `{"query":%q}`, name)
			add(metatool.DescribeTools, `{"names":[%q,"none"]}`, name)
			for _, by := range callersOf(o) {
				add(by, `{"name":%q}`, name)
				add(by, `{"name":%q,"arguments":{"n":1}}`, name)
			}
		}
		add(metatool.SearchTools, `{"query":"a tool","upstream":%q,"limit":1}`, it.Upstream)
	}
	for _, query := range []string{"", "query the database", "drop", "files", "read a file or a row", "zzz"} {
		add(metatool.SearchTools, `{"query":%q}`, query)
		add(metatool.SearchTools, `{"query":%q,"limit":1,"offset":1}`, query)
		add(metatool.SearchTools, `{"query":%q,"annotations":{"readOnlyHint":false}}`, query)
	}
	return append(requests, [2]string{wire.MethodToolsList, `{}`}, [2]string{wire.MethodDiscover, `{}`})
}

// TestHiddenToolsAreNotFound tries random policies, with two principals that search and call by
// the gateway's own tools in turns. What a principal gets is the same, to the byte, as from a world
// without the tools that it may not see and without the other principal: nothing else is found,
// described, suggested or counted, and a call reaches its upstream if and only if the naive
// evaluation of the rules allows it.
func TestHiddenToolsAreNotFound(t *testing.T) {
	compiled := gatewaytest.WorldConditions(t)
	hiddenTools, found, reached := 0, 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 14))
		wp := gatewaytest.RandomPolicy(r, compiled)
		p := policy.MustNew(wp.Opts)
		at := r.IntN(len(gatewaytest.WorldPrincipals))
		who, other := gatewaytest.WorldPrincipals[at], gatewaytest.WorldPrincipals[(at+1+r.IntN(len(gatewaytest.WorldPrincipals)-1))%len(gatewaytest.WorldPrincipals)]
		rev := gatewaytest.Pick(r, wire.Rev20251125, wire.Rev20260728)
		o := metatool.Options{Search: true, Split: r.IntN(2) == 0, Scripts: &scriptLimits}
		name := fmt.Sprintf("policy %d, %s and %s, %s, %+v: %+v", seed, who.Subject, other.Subject, rev, o, wp)
		var docs catalog.Docs
		whole, ups := searchRouter(t, p, o, &docs, func(worldItem) bool { return true }, func(string) bool { return true })
		hidden := map[string]bool{}
		for _, it := range world {
			hidden[it.ID()] = wp.Decide(gatewaytest.Query{Who: who, Rev: rev, Item: it}) == policy.Deny
		}
		view := whole.Routes().TableFor(who).View(who, &call.Client{Revision: rev})
		less, _ := searchRouter(t, p, o, nil, func(it worldItem) bool { return !hidden[it.ID()] }, func(up string) bool { return view.Part(up) != nil })

		requests := ownRequests(o)
		r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		requests = requests[:100]
		for _, q := range requests {
			_ = transcript(whole, other, rev, [][2]string{q}) // another principal's searches and calls change nothing
			got := transcript(whole, who, rev, [][2]string{q})
			if diff := cmp.Diff(transcript(less, who, rev, [][2]string{q}), got); diff != "" {
				t.Fatalf("%s\nwhat is hidden shows (-without +with):\n%s", name, diff)
			}
			if strings.Contains(q[1], metatool.SearchTools) && strings.Contains(got, `\n- `) {
				found++
			}
		}

		// Calls by own tools reach what direct calls may reach.
		for _, it := range world {
			if it.Kind != call.Tool {
				continue
			}
			if hidden[it.ID()] {
				hiddenTools++
			}
			one := 1
			effect := wp.Decide(gatewaytest.Query{Who: who, Rev: rev, Item: it, Args: &one})
			if hidden[it.ID()] {
				effect = policy.Deny
			}
			client := &recorder{}
			ups[it.Upstream].got = nil
			for _, by := range callersOf(o) { // one of them may call it
				_ = respond(whole, who, rev, wire.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":{"name":%q,"arguments":{"n":1}}}`, by, it.Public), client)
			}
			calls := len(ups[it.Upstream].got)
			scripted := &recorder{}
			source := wire.String(fmt.Sprintf(`try_call(%q, {"n": 1})`, it.Public))
			_ = respond(whole, who, rev, wire.MethodToolsCall, fmt.Sprintf(`{"name":"run_script","arguments":{"script":%s}}`, source), scripted)
			if both := len(ups[it.Upstream].got); both != 2*calls || len(scripted.asks) != len(client.asks) {
				t.Fatalf("%s\n%s was reached %d times with a script, and the user asked %d times instead of %d", name, it.Public, both-calls, len(scripted.asks), len(client.asks))
			}
			if (calls == 1) != (effect != policy.Deny) || calls > 1 {
				t.Fatalf("%s\n%s reached the upstream %d times, want %s", name, it.Public, calls, effect)
			} else if calls == 1 {
				reached++
			}
			if asked := len(client.asks) > 0; !hidden[it.ID()] && asked != (effect == policy.Confirm) {
				t.Fatalf("%s\n%s needs a confirmation: %v, want %s", name, it.Public, asked, effect)
			}
		}
	}
	if hiddenTools < 200 || found < 200 || reached < 100 {
		t.Errorf("the policies are too much alike: %d tools hidden, %d searches with results, %d calls reached", hiddenTools, found, reached)
	}
}

// A client that carries tasks gets the task of an inner call, and asks for it like for any other.
// For a client that does not, the gateway waits.
func TestInnerCallsAsTasks(t *testing.T) {
	modern := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`,
		"tasks/get":  `{"taskId":"n1","status":"completed","result":{"content":[]}}`,
	}}
	legacy := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/get": `{"taskId":"n1","status":"completed"}`, "tasks/result": `{"content":[]}`,
	}}
	for _, tt := range []struct {
		name, upstreams string
		u               *tasksUpstream
		revision        wire.Revision
		caps, more      string
		task            bool
	}{
		{"modern", modernTasks, modern, wire.Rev20260728, tasksDeclared, ``, true},
		{"modern without tasks", modernTasks, modern, wire.Rev20260728, `{}`, ``, false},
		{"legacy", legacyTasks, legacy, wire.Rev20251125, `{}`, `,"task":{"ttl":1}`, true},
		{"legacy without a task", legacyTasks, legacy, wire.Rev20251125, `{}`, ``, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tool := anyTool
				if !tt.task {
					tool = taskTool
				}
				r := routerWithTasks(t, tt.u, tt.upstreams, tool)
				r.ownTools = metatool.New()
				src := source(t, "files", nil)
				src.Revision, src.Capabilities = tt.u.revision, wire.Raw(tt.upstreams)
				src.Items[call.Tool] = []wire.Raw{wire.Raw(tool)}
				p, err := profile.New(profile.Options{Name: "default", Configured: []profile.Upstream{{Name: "files"}}, Search: true, Own: metatool.Items(metatool.Options{Search: true})})
				if err != nil {
					t.Fatal(err)
				}
				routes := *r.Routes()
				routes.Table = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow}), Profile: p}, []catalog.Source{src})
				r.Swap(&routes)
				name := wire.ValueOf(wire.Raw(tool)).Get("name").Str()
				got := wire.ValueOf(wire.Raw(ask(t, r, tt.revision, tt.caps, "ann", "tools/call", `{"name":"call_tool","arguments":{"name":"files__`+name+`"}`+tt.more+`}`)))
				if !tt.task {
					if string(got.Raw()) != `{"content":[]}` {
						t.Errorf("got %s, want the result", got.Raw())
					}
					return
				}
				id := got.Get("taskId").Str() + got.Get("task", "taskId").Str()
				if id == "" || id == "n1" {
					t.Fatalf("got %s, want a task with a public id", got.Raw())
				}
				if state := ask(t, r, tt.revision, tt.caps, "ann", "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(state, `"completed"`) {
					t.Errorf("the task is %s", state)
				}
				if state := ask(t, r, tt.revision, tt.caps, "bob", "tasks/get", `{"taskId":"`+id+`"}`); strings.Contains(state, `"completed"`) {
					t.Errorf("another principal gets the task: %s", state)
				}
			})
		})
	}
}
