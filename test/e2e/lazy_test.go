package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"

	"github.com/google/go-cmp/cmp"
)

// lazyGateway is a gateway whose file and state outlive it.
type lazyGateway struct {
	*rig.Gateway
	file      string
	upstreams rig.Upstreams
	starts    string // folder with a file for each upstream, with a line for each start
}

// newLazyGateway writes the configuration of twenty upstreams: servers from npm, and small ones.
func newLazyGateway(t *testing.T, more rig.Config) *lazyGateway {
	g := &lazyGateway{file: filepath.Join(t.TempDir(), "gateway.yaml"), upstreams: rig.Upstreams{}, starts: t.TempDir()}
	memory, memoryEnv := rig.MemoryCommand(t)
	commands := map[string][]string{
		"everything": rig.EverythingCommand(t), "memory": memory, "thinking": rig.ThinkingCommand(t), "files": rig.FilesystemCommand(t, t.TempDir()),
	}
	for n := len(commands); n < 20; n++ {
		commands[fmt.Sprintf("small-%d", n)] = rig.FixtureCommand(t)
	}
	for name, command := range commands {
		entry := rig.Config{
			"command": "sh", "args": append([]string{"-c", `echo started >>"$0"; exec "$@"`, filepath.Join(g.starts, name)}, command...),
			"start": "lazy",
		}
		for key, value := range more {
			entry[key] = value
		}
		if name == "memory" {
			entry["env"] = memoryEnv
		}
		g.upstreams[name] = entry
	}
	g.write(t, t.TempDir())
	return g
}

func (g *lazyGateway) write(t *testing.T, state string) {
	t.Helper()
	text, err := json.Marshal(rig.Config{"state_dir": state, "startup_wait": "60s", "upstreams": g.upstreams})
	if err == nil {
		err = os.WriteFile(g.file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reload gives all upstreams another value of start.
func (g *lazyGateway) reload(t *testing.T, start string) {
	t.Helper()
	text, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	var before struct {
		State string `json:"state_dir"`
	}
	if err := json.Unmarshal(text, &before); err != nil {
		t.Fatal(err)
	}
	for _, entry := range g.upstreams {
		entry["start"] = start
	}
	g.write(t, before.State)
	if err := observe.Reload(g.Gateway); err != nil {
		t.Fatal(err)
	}
}

func (g *lazyGateway) start(t *testing.T) {
	t.Helper()
	g.Gateway = rig.StartGatewayOn(t, netns.Addr(), netns.Addr(), g.file)
}

// processes returns the processes of all servers, with their supervisors.
func (g *lazyGateway) processes(t *testing.T) []int {
	t.Helper()
	all, err := observe.Descendants(g.Process.PID())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// expectStarts waits until an upstream was started this often, and expects that it was not started more often.
func (g *lazyGateway) expectStarts(t *testing.T, upstream string, want int) {
	t.Helper()
	count := func() int {
		text, err := os.ReadFile(filepath.Join(g.starts, upstream))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	polltest.Until(t, fmt.Sprintf("%d starts of %s", want, upstream), func() bool { return count() >= want })
	if got := count(); got != want {
		t.Errorf("%s was started %d times, want %d", upstream, got, want)
	}
}

// awaitIdle waits until no upstream has a process.
func (g *lazyGateway) awaitIdle(t *testing.T) {
	t.Helper()
	polltest.Until(t, "no server runs", func() bool { return len(g.processes(t)) == 0 })
	for name := range g.upstreams {
		polltest.UntilNil(t, name+" is idle", func() error {
			idle, err := observe.Metric(g.Gateway, fmt.Sprintf("mcp_gateway_upstream_idle{upstream=%q}", name))
			if err == nil && idle != 1 {
				err = fmt.Errorf("mcp_gateway_upstream_idle is %v", idle)
			}
			return err
		})
	}
}

func (g *lazyGateway) open(t *testing.T, revision string) *raw.Client {
	t.Helper()
	c, err := raw.Open(t.Context(), g.URL, revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// listed returns the names of all tools.
func listed(t *testing.T, c *raw.Client) []string {
	t.Helper()
	all, err := observe.List(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Unavailable) > 0 {
		t.Errorf("missing: %v", all.Unavailable)
	}
	slices.Sort(all.Tools)
	return all.Tools
}

// sum calls a tool of the server everything.
func sum(ctx context.Context, c *raw.Client) error {
	m, err := c.Call(ctx, "tools/call", `{"name":"everything__get-sum","arguments":{"a":2,"b":3}}`)
	if err == nil && !strings.Contains(m.Member("result"), "The sum of 2 and 3 is 5.") {
		err = fmt.Errorf("the answer is %s", m.Member("result"))
	}
	return err
}

// Twenty lazy upstreams: only those that are used have a process.
func TestLazyUpstreams(t *testing.T) {
	t.Parallel()
	g := newLazyGateway(t, rig.Config{"idle_stop": "2s"})
	g.start(t)
	gathered := listed(t, g.open(t, raw.Modern))
	g.awaitIdle(t)
	for name := range g.upstreams {
		g.expectStarts(t, name, 1) // to gather the catalog
	}
	if err := g.Process.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}

	g.start(t)
	if running := g.processes(t); len(running) > 0 {
		t.Errorf("with remembered catalogs %d processes run after the start", len(running))
	}
	clients := []*raw.Client{g.open(t, raw.Modern), g.open(t, raw.Legacy)}
	for _, c := range clients {
		if diff := cmp.Diff(gathered, listed(t, c)); diff != "" {
			t.Errorf("the gathered and the remembered list (-gathered +remembered):\n%s", diff)
		}
	}
	callAll := func() {
		t.Helper()
		var calls sync.WaitGroup
		for _, c := range clients {
			calls.Go(func() {
				if err := sum(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	for starts := range 2 {
		callAll() // both clients call at the same moment
		g.expectStarts(t, "everything", 2+starts)
		g.awaitIdle(t)
	}
	for name := range g.upstreams {
		if name != "everything" {
			g.expectStarts(t, name, 1)
		}
	}

	callAll()
	running := g.processes(t)
	if len(running) == 0 {
		t.Error("no process runs after a call")
	}
	g.Process.Kill()
	for _, pid := range running {
		polltest.Until(t, "no process survives the gateway", func() bool { return syscall.Kill(pid, 0) != nil || isZombie(pid) })
	}
}

func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// A reload makes upstreams lazy, and eager again, without a new gathering of what is known.
func TestLazyReload(t *testing.T) {
	t.Parallel()
	g := newLazyGateway(t, rig.Config{"start": "eager"})
	for name := range g.upstreams {
		if !strings.HasPrefix(name, "small") && name != "everything" {
			delete(g.upstreams, name)
		}
	}
	g.write(t, t.TempDir())
	g.start(t)
	c := g.open(t, raw.Modern)
	before := listed(t, c)
	if err := sum(t.Context(), c); err != nil {
		t.Error(err)
	}
	g.reload(t, "lazy")
	running := func() int { return len(g.processes(t)) }
	polltest.Until(t, "only what was used runs", func() bool { return running() > 0 && running() <= 3 })
	if diff := cmp.Diff(before, listed(t, c)); diff != "" {
		t.Errorf("the list (-eager +lazy):\n%s", diff)
	}
	if err := sum(t.Context(), c); err != nil {
		t.Error(err)
	}
	g.expectStarts(t, "everything", 1)
	g.reload(t, "eager")
	for name := range g.upstreams {
		if name != "everything" {
			g.expectStarts(t, name, 2)
		}
	}
	g.expectStarts(t, "everything", 1)
}

// greedy is a server that uses memory and opens files.
const greedy = `
const fs = require("fs");
const held = [];
const say = (id, result) => process.stdout.write(JSON.stringify({jsonrpc: "2.0", id, result}) + "\n");
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method, params} = JSON.parse(line);
  const tool = (name) => ({name, inputSchema: {type: "object"}});
  if (method === "initialize") say(id, {protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "greedy", version: "1"}});
  if (method === "tools/list") say(id, {tools: [tool("fill"), tool("open"), tool("echo")]});
  if (method === "tools/call" && params.name === "echo") say(id, {content: [{type: "text", text: "here"}]});
  if (method === "tools/call" && params.name === "fill") setInterval(() => held.push(Buffer.alloc(4 << 20, 1)), 5);
  if (method === "tools/call" && params.name === "open") for (;;) held.push(fs.openSync("/dev/null"));
});
`

// Real node runs under limits of memory and files, and what a limit has ended says so.
func TestLimitsOfNode(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "greedy.cjs")
	if err := os.WriteFile(script, []byte(greedy), 0o600); err != nil {
		t.Fatal(err)
	}
	g := rig.StartOne(t, "it reads the log of one process", rig.Config{"upstreams": rig.Upstreams{
		"greedy": {"command": rig.EverythingCommand(t)[0], "args": []string{script}, "limits": rig.Config{"memory": "192MiB", "files": 64}},
	}})
	c, err := raw.Open(t.Context(), g.URL, raw.Modern)
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string) error {
		_, err := c.Call(t.Context(), "tools/call", `{"name":"greedy__`+tool+`","arguments":{}}`)
		return err
	}
	for tool, want := range map[string]struct{ reason, logged string }{
		"fill": {"and limits.memory allows 192 MiB", "raise limits.memory"},
		"open": {"the connection to the server was lost", "too many files were open, and limits.files allows 64"},
	} {
		if err := call(tool); err == nil || !strings.Contains(err.Error(), want.reason) {
			t.Errorf("%s: the call ends with %v, want an error that says %q", tool, err, want.reason)
		}
		polltest.Until(t, "the log explains the end", func() bool { return strings.Contains(g.Process.Output(), want.logged) })
		if err := call("echo"); err != nil {
			t.Errorf("after %s: %v", tool, err)
		}
	}
	if !strings.Contains(g.Process.Output(), "the server was ended: it used more memory than limits.memory allows") {
		t.Error("the log does not name the limit")
	}
}
