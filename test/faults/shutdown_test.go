package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// startFamily starts a gateway with servers whose grandchildren leave the process group and ignore signals, and waits until all processes run.
func startFamily(t *testing.T, more rig.Config) (*upstreams, *rig.Gateway) {
	t.Helper()
	u := newUpstreams(t)
	u.stdio("parent", parent, nil)
	u.stdio("mute", mute, nil)
	u.stdio("parked", parked, nil)
	u.http("good-http", good, nil)
	config := rig.Config{"startup_wait": startupWait.String()}
	maps.Copy(config, more)
	g := u.gateway(config)
	u.awaitStart(g, "parked", "good-http")
	polltest.UntilNil(t, "the processes", func() error {
		// The processes are parent and its two children, mute, parked, and a supervisor for each of the three.
		if pids := u.marked(); len(pids) != 8 {
			return fmt.Errorf("%v", pids)
		}
		return nil
	})
	return u, g
}

// A killed gateway leaves no process running.
func TestKilledGateway(t *testing.T) {
	t.Parallel()
	u, g := startFamily(t, nil)
	if err := syscall.Kill(g.Process.PID(), syscall.SIGKILL); err != nil { // the gateway without its group
		t.Fatal(err)
	}
	<-g.Process.Exited()
	u.checkGone(t)
}

// On SIGTERM streams end at once and running calls complete. The gateway then exits with status 0 and leaves no process running.
func TestDrain(t *testing.T) {
	t.Parallel()
	u, g := startFamily(t, rig.Config{"drain_timeout": "2m"})
	legacy, modern := client(t, g, raw.Legacy), client(t, g, raw.Modern)
	streams := []<-chan string{changes(t, legacy), changes(t, modern)}
	const calls = 32
	done := hold(t, g, legacy, calls)

	terminate(t, g)
	for _, methods := range streams {
		for range methods { // the channel is closed with the stream
		}
	}
	checkReady(t, g, 503)
	for _, method := range []string{"initialize", "tools/call"} {
		checkRefused(t, g, method)
	}
	if _, err := echo(bounded(t), modern, "good-http"); err == nil {
		t.Error("a call after SIGTERM was answered")
	}
	select {
	case <-g.Process.Exited():
		t.Fatal("the gateway did not wait for the calls")
	default:
	}
	release(t, u)
	for range calls {
		if err := <-done; err != nil {
			t.Errorf("a running call: %v", err)
		}
	}
	checkEnded(t, g)
	u.checkGone(t)
}

// checkRefused checks that a call on a new connection gets 503 with Retry-After.
func checkRefused(t *testing.T, g *rig.Gateway, method string) {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{}}).Post(g.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{}}`))
	if err != nil {
		t.Fatalf("%s: a new connection is refused while calls run: %v", method, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !resp.Close {
		t.Errorf("%s: %s with %v, want 503 with Retry-After and the end of the connection", method, resp.Status, resp.Header)
	}
	if want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the gateway is shutting down`; !strings.HasPrefix(string(body), want) {
		t.Errorf("%s: %s, want %s", method, body, want)
	}
}

// A call that does not end delays the shutdown for drain_timeout only. Its client gets an error.
func TestDrainOfACallThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	u, g := startFamily(t, rig.Config{"drain_timeout": "500ms"})
	call := hold(t, g, client(t, g, raw.Legacy), 1)
	terminate(t, g)
	if err := <-call; err == nil {
		t.Error("the call was answered")
	}
	checkEnded(t, g)
	u.checkGone(t)
}

// A second signal ends the gateway at once, in spite of running calls, and no process is left running.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	u, g := startFamily(t, rig.Config{"drain_timeout": "10m"})
	call := hold(t, g, client(t, g, raw.Modern), 1)
	terminate(t, g)
	checkReady(t, g, 503)
	terminate(t, g)
	<-g.Process.Exited()
	if err := <-call; err == nil {
		t.Error("the call was answered")
	}
	u.checkGone(t)
}

// hold starts calls that end after release. It returns when the gateway has sent all of them, with a channel of their outcomes.
func hold(t *testing.T, g *rig.Gateway, c *raw.Client, calls int) <-chan error {
	t.Helper()
	done := make(chan error, calls)
	ctx := bounded(t)
	for range calls {
		go func() {
			answer, err := use(ctx, c, "parked__hold", "go")
			if err == nil && answer != "held" {
				err = fmt.Errorf("answer %q", answer)
			}
			done <- err
		}()
	}
	polltest.UntilNil(t, "the calls in flight", func() error {
		got, err := observe.Metric(g, `mcp_gateway_inflight_requests{upstream="parked"}`)
		if err == nil && int(got) != calls {
			err = fmt.Errorf("%v, want %d", got, calls)
		}
		return err
	})
	return done
}

func release(t *testing.T, u *upstreams) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(u.dirs["parked"], "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func terminate(t *testing.T, g *rig.Gateway) {
	t.Helper()
	if err := syscall.Kill(g.Process.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// checkEnded checks that the gateway exits with status 0.
func checkEnded(t *testing.T, g *rig.Gateway) {
	t.Helper()
	select {
	case <-g.Process.Exited():
	case <-time.After(within):
		t.Fatal("the gateway did not end")
	}
	if err := g.Process.Stop(within); err != nil { // the process has ended; Stop returns its status
		t.Errorf("the gateway ended with %v, want status 0", err)
	}
}

// If every upstream is down, a list is an error that names all of them.
func TestAllDown(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.stdio("exits", exits, nil)
	u.http("html", html, nil)
	u.stdio("mute", mute, rig.Config{"timeout": "10m"})
	g := u.gateway(rig.Config{"startup_wait": startupWait.String()})
	var lists sync.WaitGroup // each waits for the server that is still starting
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		c := client(t, g, revision)
		for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			lists.Go(func() {
				_, err := c.Call(bounded(t), method, `{}`)
				fault, ok := err.(*raw.Fault)
				if !ok || fault.Code != -32603 {
					t.Errorf("%s, %s: %v, want error -32603", revision, method, err)
					return
				}
				var data struct {
					Unavailable []struct{ Upstream, Reason, Since string }
				}
				if err := json.Unmarshal(fault.Data, &data); err != nil {
					t.Errorf("data %s: %v", fault.Data, err)
				}
				var names []string
				for _, missing := range data.Unavailable {
					names = append(names, missing.Upstream)
					if missing.Reason == "" {
						t.Errorf("%s: no reason for %s", method, missing.Upstream)
					}
				}
				if fmt.Sprint(names) != "[exits html mute]" {
					t.Errorf("%s names %v, want all three", method, names)
				}
				checkNoLeak(t, method, fault.Error())
			})
		}
	}
	lists.Wait()
}
