package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// nothingFor is the complaint about a feature that the server's toolbox omits.
const nothingFor = "the server has nothing for it"

// server is a column of a table.
type server struct {
	name   string
	config func(*testing.T) rig.Config // returns its entry in the gateway's configuration, and starts an HTTP server
	era    rig.Era                     // of the connection to the server
	tools  toolbox
	// inSession are rows for which the server keeps something in a session or process that clients share. Each
	// replica has its own, so the rows are not run with -replicas; a column with a session per client runs them.
	inSession []string
}

// withProcess are the rows for which the servers on stdio keep something in their process.
var withProcess = []string{"cancellation", "elicitation URL by error -32042", "subscribe and update", "list change"}

// user is a client of a table.
type user struct {
	name   string
	client client.Client
	way    way
}

// way is the client's way to the server.
type way int

const (
	overHTTP  way = iota // through the gateway's endpoint
	overSSE              // through the gateway's HTTP+SSE endpoint
	overStdio            // through a gateway that the client starts
	alone                // without a gateway
)

func users(w way, all ...client.Client) (users []user) {
	suffix := map[way]string{overSSE: " over HTTP+SSE", overStdio: " over stdio"}[w]
	for _, c := range all {
		name := c.Name()
		if strings.HasPrefix(name, "v") {
			name = "TypeScript " + name
		}
		users = append(users, user{name: name + suffix, client: c, way: w})
	}
	return users
}

// target returns the server that a user's client connects to. gateway is the running gateway, if there is one, with its configuration.
func (u user) target(t *testing.T, gateway *rig.Gateway, config rig.Config) client.Target {
	switch u.way {
	case overHTTP:
		return client.Target{URL: gateway.URL}
	case overSSE:
		return client.Target{SSE: gateway.SSE}
	case overStdio:
		return client.Target{Command: rig.StdioCommand(t, config)}
	}
	entry := config["upstreams"].(rig.Upstreams)[upstream]
	if url, ok := entry["url"].(string); ok {
		return client.Target{URL: url}
	}
	return client.Target{Command: append([]string{entry["command"].(string)}, entry["args"].([]string)...)}
}

// upstream is the name of the server in every gateway.
const upstream = "srv"

var (
	v1       = client.V1()
	v2Legacy = client.V2(client.Legacy)
	v2Modern = client.V2(client.Modern)
	goLegacy = client.GoSDK(client.Legacy)
	goModern = client.GoSDK(client.Modern)
)

func goHTTP(era rig.Era) func(*testing.T) rig.Config {
	return func(t *testing.T) rig.Config { return rig.Config{"url": rig.Features(t, era)} }
}

// tsHTTP starts a server that supports both eras and prefers the modern one. With an era, the gateway is configured to use that era.
func tsHTTP(era rig.Era) func(*testing.T) rig.Config {
	return func(t *testing.T) rig.Config {
		config := rig.Config{"url": rig.FeaturesTS(t)}
		if era != "" {
			config["era"] = era
		}
		return config
	}
}

func stdio(command func(*testing.T) []string, era rig.Era) func(*testing.T) rig.Config {
	return func(t *testing.T) rig.Config {
		c := command(t)
		return rig.Config{"command": c[0], "args": c[1:], "era": era}
	}
}

func goStdio(era rig.Era) func(*testing.T) rig.Config {
	return stdio(func(t *testing.T) []string { return rig.FeaturesCommand(t, era) }, era)
}

func TestStreamableHTTP(t *testing.T) {
	checkTable(t, "Streamable HTTP on both sides", httpUsers, []server{
		{"Go SDK legacy", goHTTP(rig.Legacy), rig.Legacy, own, nil},
		{"Go SDK modern", goHTTP(rig.Modern), rig.Modern, own, nil},
		modernTS,
		{"TypeScript v2, `era: legacy`", tsHTTP(rig.Legacy), rig.Legacy, own, nil},
		serverEverything,
		sessionLegacy,
		sessionEverything,
	})
}

var httpUsers = users(overHTTP, v1, v2Legacy, v2Modern, goLegacy, goModern)

var (
	modernTS          = server{"TypeScript v2", tsHTTP(""), rig.Modern, own, nil}
	sessionLegacy     = server{"Go SDK legacy, `session: per-client`", perClient(goHTTP(rig.Legacy)), rig.Legacy, own, nil}
	sessionEverything = server{"server-everything, `session: per-client`", perClient(serverEverything.config), rig.Legacy, everything, nil}
)

// perClient gives each client its own session with the server, which has the client's roots. The catalog session has other roots, because a server may
// list its tools for roots only to a client that has some.
func perClient(config func(*testing.T) rig.Config) func(*testing.T) rig.Config {
	return func(t *testing.T) rig.Config {
		c := config(t)
		c["session"], c["roots"] = "per-client", []rig.Config{{"uri": "file:///of/nobody"}}
		return c
	}
}

var serverEverything = server{
	"server-everything", func(t *testing.T) rig.Config { return rig.Config{"url": rig.EverythingHTTP(t)} }, rig.Legacy, everything,
	[]string{"log message", "elicitation URL by error -32042", "subscribe and update", "list change"},
}

func TestStdioUpstreams(t *testing.T) {
	tsStdio := func(era rig.Era) func(*testing.T) rig.Config {
		return stdio(func(t *testing.T) []string { return rig.FeaturesTSCommand(t) }, era)
	}
	checkTable(t, "Servers on stdio", users(overHTTP, v1, v2Modern, goLegacy, goModern), []server{
		{"Go SDK legacy", goStdio(rig.Legacy), rig.Legacy, own, withProcess},
		{"Go SDK modern", goStdio(rig.Modern), rig.Modern, own, withProcess},
		{"TypeScript v2, `era: legacy`", tsStdio(rig.Legacy), rig.Legacy, own, withProcess},
		{"TypeScript v2, `era: modern`", tsStdio(rig.Modern), rig.Modern, own, withProcess},
		{"Go SDK legacy, `session: per-client`", perClient(goStdio(rig.Legacy)), rig.Legacy, own, nil},
		{"TypeScript v2, `era: legacy`, `session: per-client`", perClient(tsStdio(rig.Legacy)), rig.Legacy, own, nil},
	})
}

func TestOtherFrontEnds(t *testing.T) {
	all := append(users(overSSE, v1, goLegacy), users(overStdio, v1, v2Legacy, v2Modern, goLegacy, goModern)...)
	checkTable(t, "Clients over HTTP+SSE and stdio", all, []server{
		{"Go SDK legacy", goHTTP(rig.Legacy), rig.Legacy, own, nil},
		{"TypeScript v2", tsHTTP(""), rig.Modern, own, nil},
	})
}

// checkTable lets every client use every server, and compares the results with the table under this heading.
func checkTable(t *testing.T, heading string, users []user, servers []server) {
	t.Helper()
	expected := readExpected(t)
	found := &table{rows: features, marks: make(map[string][]string)}
	for _, u := range users {
		found.clients = append(found.clients, u.name)
	}
	for _, s := range servers {
		found.servers = append(found.servers, s.name)
	}
	want := expected.tables[heading]
	if want == nil || !slices.Equal(want.clients, found.clients) || !slices.Equal(want.servers, found.servers) || !slices.Equal(want.rows, found.rows) {
		t.Errorf("expected.md has no table of this shape under %q", heading)
		want = &table{marks: make(map[string][]string)}
	}
	var mu sync.Mutex
	t.Run("with", func(t *testing.T) {
		for _, s := range servers {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				marks := useAll(t, s, users, want.markOf(s), expected, rig.StartGateway)
				mu.Lock()
				defer mu.Unlock()
				for row, m := range marks {
					found.marks[at(row, s.name)] = m
				}
			})
		}
	})
	t.Logf("%s:\n%s", heading, found)
}

// markOf returns the expected mark of each client in the rows of a server.
func (t *table) markOf(s server) func(row string, client int) string {
	return func(row string, client int) string {
		if marks := t.marks[at(row, s.name)]; client < len(marks) {
			return marks[client]
		}
		return "?"
	}
}

// TestReplicas has three replicas behind a balancer without affinity, for servers that keep a session for each client. The flag -replicas
// does the same for all tables.
func TestReplicas(t *testing.T) {
	const heading = "Streamable HTTP on both sides"
	expected := readExpected(t)
	for _, test := range []struct {
		balance rig.Balance
		server  server
	}{
		{rig.Requests, sessionLegacy}, {rig.Connections, sessionEverything}, {rig.Connections, modernTS},
	} {
		t.Run(string(test.balance)+" "+test.server.name, func(t *testing.T) {
			t.Parallel()
			useAll(t, test.server, httpUsers, expected.tables[heading].markOf(test.server), expected, func(t testing.TB, config rig.Config) *rig.Gateway {
				return rig.StartBalanced(t, config, test.balance)
			})
		})
	}
}

// useAll lets the clients use one server, one after another, and returns the marks of each row. want returns the expected mark of a client,
// start starts the gateway.
func useAll(t *testing.T, s server, users []user, want func(row string, client int) string, f *file, start func(testing.TB, rig.Config) *rig.Gateway) map[string][]string {
	config := rig.Config{"upstreams": rig.Upstreams{upstream: s.config(t)}}
	var gateway *rig.Gateway
	if slices.ContainsFunc(users, func(u user) bool { return u.way == overHTTP || u.way == overSSE }) {
		gateway = start(t, config)
	}
	marks := make(map[string][]string)
	for _, row := range features {
		marks[row] = slices.Repeat([]string{fails}, len(users))
	}
	skipped := func(row string, u user) bool {
		return rig.Replicated() && u.way == overHTTP && slices.Contains(s.inSession, row)
	}
	for i, u := range users {
		t.Run(u.name, func(t *testing.T) {
			r := run{upstream: upstream, era: s.era, client: u.client.Era(), key: strings.NewReplacer(" ", "-", "+", "").Replace(u.name)}
			if u.way == alone {
				r.upstream = ""
			}
			tools := maps.Clone(s.tools)
			maps.DeleteFunc(tools, func(row string, _ func(run) []step) bool { return skipped(row, u) })
			for row, wrong := range use(t, r, tools, u.client, u.target(t, gateway, config), func(row string) string { return want(row, i) }) {
				if skipped(row, u) {
					marks[row][i] = notRun
					continue
				}
				mark, complaint := f.mark(want(row, i), wrong)
				marks[row][i] = mark
				if complaint != "" {
					t.Errorf("%s: %s", row, complaint)
				}
			}
		})
	}
	return marks
}

// TestWithoutGateway connects the clients to the servers directly, for failures that have their cause in the client or the server.
func TestWithoutGateway(t *testing.T) {
	checkTable(t, "Without the gateway", users(alone, v2Modern, goModern), []server{
		{"Go SDK modern", goHTTP(rig.Modern), rig.Modern, own, nil},
		{"Go SDK modern on stdio", goStdio(rig.Modern), rig.Modern, own, nil},
		{"TypeScript v2", tsHTTP(""), rig.Modern, own, nil},
	})
}

// hopeless is the timeout in milliseconds for events that are not expected.
const hopeless = 500

// use lets one client use every feature of one server in one connection, and returns the complaint about each feature, "" if it works. want is the
// expected mark of each feature.
func use(t *testing.T, r run, tools toolbox, c client.Client, target client.Target, want func(row string) string) map[string]string {
	var steps []client.Step
	plans := make(map[string][]step)
	for _, row := range features {
		r.timeout = 0
		if want(row) != works {
			r.timeout = hopeless
		}
		if plan, ok := tools[row]; ok {
			plans[row] = plan(r)
		}
		for _, s := range plans[row] {
			s.Within = r.timeout
			steps = append(steps, s.Step)
		}
	}
	outcomes := client.Answering(c).Run(t, target, steps).Steps
	wrong := make(map[string]string)
	for _, row := range features {
		wrong[row] = ""
		if len(plans[row]) == 0 {
			wrong[row] = nothingFor
		}
		for i, s := range plans[row] {
			if fault := s.wrong(outcomes[i]); fault != "" && wrong[row] == "" {
				wrong[row] = fmt.Sprintf("step %d, %s", i+1, fault)
			}
		}
		outcomes = outcomes[len(plans[row]):]
	}
	return wrong
}
