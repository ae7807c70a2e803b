package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// callTimeout is the timeout of upstreams that do not answer some calls. Their other calls must complete within it, also on a busy machine.
const callTimeout = "3s"

// startAll starts a gateway with all upstreams.
func startAll(t *testing.T) (*upstreams, *rig.Gateway) {
	u := newUpstreams(t)
	impatient := rig.Config{"timeout": callTimeout}
	endless := rig.Config{"timeout": "10m"} // the first attempt lasts longer than the test
	u.stdio("good", good, nil)
	u.http("good-http", good, nil)
	u.stdio("mute", mute, endless)
	u.http("mute-http", mute, endless)
	u.stdio("exits", exits, nil)
	u.stdio("dies", dies, nil)
	u.stdio("noisy", noisy, impatient)
	u.stdio("flood", flood, nil)
	u.http("html", html, nil)
	u.stdio("crowd", crowd, nil)
	u.stdio("liar", liar, impatient)
	u.http("liar-http", liar, nil)
	u.stdio("broken", broken, impatient)
	u.http("broken-http", broken, nil)
	u.http("cutter", cutter, nil)
	u.stdio("slow", slow, impatient)
	u.http("slow-http", slow, impatient)
	u.stdio("reborn", reborn, nil)
	u.http("reborn-http", reborn, rig.Config{"required": true})
	u.stdio("late", late, endless)
	u.config["absent"] = rig.Config{"command": "/nowhere/faulty-server"}
	return u, u.gateway(rig.Config{"startup_wait": startupWait.String()})
}

// down are the upstreams that never start, each with a part of the reason in lists and errors.
var down = map[string]string{
	"mute":      "starting",
	"mute-http": "starting",
	"exits":     "exit status 3",
	"html":      "text/html",
	"absent":    "cannot start",
	"late":      "starting", // until the test releases it
}

func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	u, g := startAll(t)
	if took := time.Since(began); took > startupWait+within {
		t.Errorf("ready after %v, with startup_wait %v and servers that do not start", took, startupWait)
	}
	legacy, modern := client(t, g, raw.Legacy), client(t, g, raw.Modern)
	clients := map[string]*raw.Client{"legacy": legacy, "modern": modern}
	polltest.UntilNil(t, "all that come up have, and the others have tried", func() error {
		got, err := observe.List(bounded(t), legacy)
		for name, want := range down {
			if err == nil && (len(got.Unavailable) > len(down) || !strings.Contains(got.Unavailable[name], want)) {
				err = fmt.Errorf("unavailable: %v", got.Unavailable)
			}
		}
		return err
	})
	others := busy(t, g) // until the end of the test

	for era, c := range clients {
		t.Run("lists name missing servers, for the "+era+" client", func(t *testing.T) { checkLists(t, c) })
	}
	t.Run("metrics show which servers are up", func(t *testing.T) {
		for name := range u.config {
			if _, isDown := down[name]; !isDown {
				checkUp(t, g, name, 1)
			}
		}
		for name := range down {
			checkUp(t, g, name, 0)
		}
	})
	for era, c := range clients {
		t.Run("errors are clear, for the "+era+" client", func(t *testing.T) { checkFailures(t, c) })
	}
	t.Run("calls that ended their server are not retried", func(t *testing.T) { checkNoRetry(t, legacy, u) })
	t.Run("a server that died works with the next call", func(t *testing.T) {
		for _, name := range []string{"dies", "noisy", "flood", "liar", "liar-http", "broken", "broken-http", "cutter", "slow", "slow-http"} {
			if _, err := echo(bounded(t), legacy, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("a server comes up long after the start", func(t *testing.T) { checkLateStart(t, g, u, clients) })
	t.Run("a server on stdio is killed between two calls", func(t *testing.T) { checkRestart(t, g, u, clients, "reborn") })
	t.Run("a server on HTTP is restarted between two calls", func(t *testing.T) { checkRestart(t, g, u, clients, "reborn-http") })
	t.Run("a server on HTTP is away for a while", func(t *testing.T) { checkOutage(t, g, u, modern) })

	if n := others(); n < 20 {
		t.Errorf("the working upstreams were used only %d times meanwhile", n)
	}
	_, metrics, err := observe.Admin(g, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{secret, inside} {
		if strings.Contains(metrics, text) || strings.Contains(g.Process.Output(), text) {
			t.Errorf("the metrics or the log contain %q", text)
		}
	}
}

// busy uses both working upstreams all the time, with clients of both eras. stop ends that and returns the number of calls.
func busy(t *testing.T, g *rig.Gateway) (stop func() int64) {
	ctx, cancel := context.WithCancel(t.Context())
	var uses atomic.Int64
	var wg sync.WaitGroup
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		c := client(t, g, revision)
		for _, name := range []string{"good", "good-http"} {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, err := echo(ctx, c, name)
					if err == nil {
						_, err = c.Call(ctx, "tools/list", `{}`)
					}
					if err != nil && ctx.Err() == nil {
						t.Errorf("%s client, %s: %v", revision, name, err)
						return
					}
					uses.Add(1)
				}
			})
		}
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return func() int64 { cancel(); wg.Wait(); return uses.Load() }
}

func checkLists(t *testing.T, c *raw.Client) {
	got, err := observe.List(bounded(t), c)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range down {
		reason, ok := got.Unavailable[name]
		if !ok || !strings.Contains(reason, want) {
			t.Errorf("%s is unavailable with the reason %q, want %q", name, reason, want)
		}
		checkNoLeak(t, "the list, of "+name, reason)
	}
	if len(got.Unavailable) != len(down) {
		t.Errorf("unavailable: %v, want %v", got.Unavailable, slices.Sorted(maps.Keys(down)))
	}
	many := got.Of("crowd")
	if len(many) != crowdTools {
		t.Fatalf("%d tools of the crowd, want %d", len(many), crowdTools)
	}
	for i, name := range many {
		if want := fmt.Sprintf("t%05d", i); name != want {
			t.Fatalf("tool %d of the crowd is %s, want %s", i, name, want)
		}
	}
	for name, want := range map[string][]string{
		"good": {"echo"}, "good-http": {"echo"}, "noisy": {"echo", "huge", "merged", "utf8"}, "liar": {"echo", "lie"}, "dies": {"echo", "die", "once"},
	} {
		if tools := got.Of(name); !slices.Equal(tools, want) {
			t.Errorf("tools of %s are %q, want %q", name, tools, want)
		}
	}
}

// checkFailures makes all failing calls concurrently and checks their errors.
func checkFailures(t *testing.T, c *raw.Client) {
	ctx := bounded(t)
	var wg sync.WaitGroup
	for _, test := range []struct {
		upstream, tool, reason string
		retryable              bool
	}{
		{"mute", "anything", "starting", true},
		{"mute-http", "anything", "starting", true},
		{"late", "anything", "starting", true},
		{"exits", "anything", "exit status 3", true},
		{"html", "anything", "text/html", true},
		{"absent", "anything", "cannot start", true},
		{"dies", "die", "exit status 9|connection to the server was lost", false},
		{"noisy", "huge", "larger than 1048576 bytes", false},
		{"noisy", "merged", "did not answer within " + callTimeout + "|larger than", false},
		{"noisy", "utf8", "malformed", false},
		{"liar", "lie", "did not answer within " + callTimeout, false},
		{"liar-http", "lie", "id of another request", false},
		{"broken", "broken", "did not answer within " + callTimeout + "|malformed", false},
		{"broken-http", "broken", "no valid JSON-RPC message", false},
		{"cutter", "cut", "broke", false},
		{"cutter", "cut-stream", "broke", false},
		{"slow", "sleep", "did not answer within " + callTimeout, false},
		{"slow-http", "sleep", "did not answer within " + callTimeout, false},
	} {
		call := func() {
			_, err := use(ctx, c, test.upstream+"__"+test.tool, "")
			checkFailure(t, err, test.upstream, test.reason, test.retryable)
		}
		if test.upstream == "noisy" {
			call() // not concurrently: a line over the limit does not show which call it answers
			continue
		}
		wg.Go(call)
	}
	wg.Wait()
}

// checkNoRetry checks that the gateway does not retry a call that may have ended its server, whatever the tool's annotations say.
func checkNoRetry(t *testing.T, c *raw.Client, u *upstreams) {
	_, err := use(bounded(t), c, "dies__once", "")
	checkFailure(t, err, "dies", "connection to the server was lost", false)
	if _, err := use(bounded(t), c, "dies__once", ""); err != nil {
		t.Errorf("the client's own second call of a tool that ends its server once: %v", err)
	}
	for tool, calls := range map[string]int{"die": len(clientsOfFailures), "once": 2} {
		lives, err := os.ReadFile(filepath.Join(u.dirs["dies"], tool, "starts"))
		if err != nil {
			t.Fatal(err)
		}
		if len(lives) != calls {
			t.Errorf("%s was called %d times for %d calls", tool, len(lives), calls)
		}
	}
}

// clientsOfFailures are the eras of the clients that make every failing call once.
var clientsOfFailures = []string{raw.Legacy, raw.Modern}

// changes opens a client's stream of notifications and returns a channel of their methods. The channel is closed with the stream.
func changes(t *testing.T, c *raw.Client) <-chan string {
	t.Helper()
	stream, err := c.Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	methods, done := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(done)
		defer close(methods)
		for {
			m, err := stream.Next()
			if err != nil {
				return
			}
			methods <- m.Method()
		}
	}()
	t.Cleanup(func() { stream.Close(); <-done })
	return methods
}

// await waits until a notification has announced a change of the tools and the list then satisfies wanted. Changes of other upstreams
// arrive on the same stream.
func await(t *testing.T, c *raw.Client, methods <-chan string, wanted func(observe.Listed) error) {
	t.Helper()
	deadline := time.After(within)
	err := errors.New("no notification of a change")
	for {
		select {
		case method, open := <-methods:
			if !open {
				t.Fatalf("%s client: the stream of changes ended: %v", c.Revision(), err)
			}
			if method != "notifications/tools/list_changed" {
				continue
			}
			var got observe.Listed
			if got, err = observe.List(bounded(t), c); err == nil {
				err = wanted(got)
			}
			if err == nil {
				return
			}
		case <-deadline:
			t.Fatalf("%s client: not within %v: %v", c.Revision(), within, err)
		}
	}
}

// present requires that the list contains a tool of an upstream and does not report the upstream as unavailable.
func present(upstream, tool string) func(observe.Listed) error {
	return func(got observe.Listed) error {
		if reason, missing := got.Unavailable[upstream]; missing || !slices.Contains(got.Of(upstream), tool) {
			return fmt.Errorf("the list has %q of %s, unavailable with the reason %q; want %s", got.Of(upstream), upstream, reason, tool)
		}
		return nil
	}
}

// discard discards the notifications that have arrived so far.
func discard(methods <-chan string) {
	for {
		select {
		case _, open := <-methods:
			if !open {
				return // await reports a closed stream
			}
		default:
			return
		}
	}
}

// checkRestart restarts a server between two calls. The second call works, in a new process, and clients only notice that the list has changed.
func checkRestart(t *testing.T, g *rig.Gateway, u *upstreams, clients map[string]*raw.Client, name string) {
	heard := map[string]<-chan string{}
	for era, c := range clients {
		heard[era] = changes(t, c)
	}
	for round := range 3 {
		for era, c := range clients {
			before, err := echo(bounded(t), c, name)
			if err != nil {
				t.Fatal(err)
			}
			life := startsOf(t, u, name)
			for _, methods := range heard {
				discard(methods)
			}
			if r := u.remote[name]; r != nil {
				r.Kill()
				r.start(t)
			} else {
				kill(t, before)
			}
			after, err := echo(bounded(t), c, name)
			if err != nil {
				t.Fatalf("the first call after restart %d, of the %s client: %v", round, era, err)
			}
			if after == before {
				t.Fatalf("the server was not restarted: its pid is still %d", after)
			}
			for era, c := range clients {
				await(t, c, heard[era], present(name, fmt.Sprint("life-", life+1)))
			}
			checkUp(t, g, name, 1)
		}
	}
}

// startsOf returns how often a server was started.
func startsOf(t *testing.T, u *upstreams, name string) int {
	t.Helper()
	file, err := os.Stat(filepath.Join(u.dirs[name], "starts"))
	if err != nil {
		t.Fatal(err)
	}
	return int(file.Size())
}

// kill ends a process that is not a child of this one, and waits until it has ended.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, "the end of the process", func() error {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return errors.New("it is still there")
	})
}

// checkLateStart lets a server answer initialize long after the start.
func checkLateStart(t *testing.T, g *rig.Gateway, u *upstreams, clients map[string]*raw.Client) {
	heard := map[string]<-chan string{}
	for era, c := range clients {
		heard[era] = changes(t, c)
	}
	if err := os.WriteFile(filepath.Join(u.dirs["late"], "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for era, c := range clients {
		await(t, c, heard[era], present("late", "echo"))
		if _, err := echo(bounded(t), c, "late"); err != nil {
			t.Errorf("%s client: %v", era, err)
		}
	}
	checkUp(t, g, "late", 1)
}

// checkOutage stops a required server on HTTP for a while and starts it again.
func checkOutage(t *testing.T, g *rig.Gateway, u *upstreams, c *raw.Client) {
	const name = "reborn-http"
	methods := changes(t, c)
	checkReady(t, g, 200)
	u.remote[name].Kill()
	_, err := echo(bounded(t), c, name)
	checkFailure(t, err, name, "cannot", true)
	checkUp(t, g, name, 0)
	checkReady(t, g, 503)
	await(t, c, methods, func(got observe.Listed) error {
		checkNoLeak(t, "the list", got.Unavailable[name])
		if got.Unavailable[name] == "" || len(got.Of(name)) != 0 {
			return fmt.Errorf("the list reports %s as unavailable with the reason %q, and has %q of it", name, got.Unavailable[name], got.Of(name))
		}
		return nil
	})

	u.remote[name].start(t)
	if _, err := echo(bounded(t), c, name); err != nil {
		t.Errorf("the first call after the server was back: %v", err)
	}
	checkUp(t, g, name, 1)
	checkReady(t, g, 200)
	await(t, c, methods, present(name, "echo"))
}
