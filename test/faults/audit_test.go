package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// audited has the members of an audit line that these tests read.
type audited struct {
	Event, Request, Item, Native, Upstream, Effect, Rule, Outcome, Digest string
	Principal                                                             struct{ Subject, Proof string }
	Arguments                                                             struct{ Text string }
}

// readAudit reads the lines of an audit. Every line must be complete.
func readAudit(t *testing.T, file string) []audited {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []audited
	for line := range strings.Lines(string(data)) {
		var a audited
		if err := json.Unmarshal([]byte(line), &a); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("the line %q: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

// awaitAudit waits until an audit has this many lines: the end of a call is written a little later. It returns them.
func awaitAudit(t *testing.T, file string, want int) []audited {
	t.Helper()
	polltest.UntilNil(t, "the lines of the audit", func() error {
		data, err := os.ReadFile(file)
		if n := bytes.Count(data, []byte("\n")); err == nil && n != want {
			err = fmt.Errorf("%d lines, want %d", n, want)
		}
		return err
	})
	return readAudit(t, file)
}

// inFlight returns the items of calls with a decision and without an end.
func inFlight(lines []audited) map[string]int {
	open := map[string]audited{}
	for _, l := range lines {
		switch l.Event {
		case "decision":
			open[l.Request] = l
		case "end":
			delete(open, l.Request)
		}
	}
	items := map[string]int{}
	for _, l := range open {
		items[l.Item]++
	}
	return items
}

// After a crash the audit shows which calls were in flight, and the next gateway appends to the same file.
func TestAuditOfAKilledGateway(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.stdio("parked", parked, nil)
	u.http("good-http", good, nil)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	config := rig.Config{"telemetry": rig.Config{"audit": rig.Config{"file": file}}}
	g := u.gateway(config)
	c := client(t, g, raw.Legacy)
	if _, err := use(bounded(t), c, "good-http__echo", secret); err != nil {
		t.Fatal(err)
	}
	const calls = 3
	done := hold(t, g, c, calls)
	if err := syscall.Kill(g.Process.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-g.Process.Exited()
	for range calls {
		<-done
	}
	lines := readAudit(t, file)
	if got := inFlight(lines); len(got) != 1 || got["parked__hold"] != calls {
		t.Errorf("in flight %v, want %d of parked__hold", got, calls)
	}
	for _, l := range lines {
		if l.Event == "decision" && l.Item == "good-http__echo" && (l.Native != "echo" || l.Effect != "allow" || l.Rule != "default" ||
			l.Principal.Subject != "anonymous" || l.Principal.Proof != "none" || !strings.HasPrefix(l.Digest, "sha256:")) {
			t.Errorf("wrong decision %+v", l)
		}
	}
	if data, _ := os.ReadFile(file); strings.Contains(string(data), secret) {
		t.Error("the audit contains an argument")
	}

	again := u.gateway(config)
	if _, err := use(bounded(t), client(t, again, raw.Modern), "good-http__echo", "x"); err != nil {
		t.Fatal(err)
	}
	if all := awaitAudit(t, file, len(lines)+2); all[len(all)-1].Outcome != "ok" {
		t.Errorf("the last line is %+v", all[len(all)-1])
	}
}

// While the audit cannot be written, the gateway makes no calls and reports the failure to clients and operators.
func TestAuditThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	u.stdio("good", good, nil)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := u.gateway(rig.Config{"telemetry": rig.Config{"audit": rig.Config{"file": file}}})
	c := client(t, g, raw.Modern)
	if _, err := use(bounded(t), c, "good__echo", "x"); err != nil {
		t.Fatal(err)
	}
	awaitAudit(t, file, 2)
	if err := errors.Join(os.Rename(file, file+".1"), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"good__echo", "good__absent"} {
		_, err := use(bounded(t), c, tool, "x")
		if err == nil || !strings.Contains(err.Error(), "the gateway cannot write its audit") {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		checkNoLeak(t, "the error", err.Error())
	}
	if n, err := observe.Metric(g, "mcp_gateway_audit_failures_total"); err != nil || n != 2 {
		t.Errorf("%v failures, %v; want 2", n, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := use(bounded(t), c, "good__echo", "x"); err != nil {
		t.Errorf("the audit can be written again: %v", err)
	}
	for name, want := range map[string]int{file + ".1": 2, file: 2} {
		awaitAudit(t, name, want)
	}
}

// callRecorder is a server that records the text of each call that reaches it.
type callRecorder struct {
	server
	mu    sync.Mutex
	texts []string
}

func (r *callRecorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if m, err := raw.Read(string(body)); err == nil && m.Method() == "tools/call" {
		_, text := called(m)
		r.mu.Lock()
		r.texts = append(r.texts, text)
		r.mu.Unlock()
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.server.ServeHTTP(w, req)
}

func (r *callRecorder) reached() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.texts
}

// recording adds a server that records its calls, in this process.
func (u *upstreams) recording(name string) *callRecorder {
	r := &callRecorder{server: server{mode: good, dir: u.t.TempDir()}}
	s := httptest.NewServer(r)
	u.t.Cleanup(s.Close)
	u.config[name] = rig.Config{"url": s.URL + "/mcp"}
	return r
}

// keepCalling makes calls with different texts until one fails with an error that is none of the gateway's. It returns the texts
// of the calls that succeeded, and the messages of the errors of the gateway.
func keepCalling(t *testing.T, g *rig.Gateway, tool string, clients int) (stop func() (succeeded, failed []string)) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var ok, errs []string
	ended := make(chan struct{})
	for n := range clients {
		c := client(t, g, []string{raw.Legacy, raw.Modern}[n%2])
		wg.Go(func() {
			for i := 0; ; i++ {
				text := fmt.Sprintf("call %d of %d", i, n)
				_, err := use(t.Context(), c, tool, text)
				var fault *raw.Fault
				mu.Lock()
				switch {
				case err == nil:
					ok = append(ok, text)
				case errors.As(err, &fault):
					errs = append(errs, fault.Message)
				default:
					mu.Unlock()
					return
				}
				mu.Unlock()
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	return func() (succeeded, failed []string) {
		close(ended)
		wg.Wait()
		return ok, errs
	}
}

// Every call that reached an upstream has its decision in the audit, when the gateway is killed under load.
func TestAuditOfAGatewayKilledUnderLoad(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	up := u.recording("good")
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := u.gateway(rig.Config{"telemetry": rig.Config{"audit": rig.Config{"file": file, "arguments": true}}})
	stop := keepCalling(t, g, "good__echo", 16)
	polltest.Until(t, "many calls", func() bool { return len(up.reached()) > 500 })
	if err := syscall.Kill(g.Process.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-g.Process.Exited()
	if _, failed := stop(); len(failed) > 0 {
		t.Errorf("errors of the gateway: %q", failed)
	}
	recorded := map[string]bool{}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1] // the process may have died while it wrote the last line
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, l := range readAudit(t, file) {
		if l.Event == "decision" {
			recorded[l.Arguments.Text] = true
		}
	}
	for _, text := range up.reached() {
		if !recorded[text] {
			t.Errorf("%q reached the upstream without a decision in the audit", text)
		}
	}
}

// On a full disk, calls are refused and do not reach the upstream. When there is room again they are made, and the audit is
// complete.
func TestAuditOnAFullDisk(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	up := u.recording("good")
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	g := u.gateway(rig.Config{"telemetry": rig.Config{"audit": rig.Config{"file": file, "arguments": true}}})
	limit := func(size uint64) {
		var before unix.Rlimit
		if err := unix.Prlimit(g.Process.PID(), unix.RLIMIT_FSIZE, nil, &before); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(g.Process.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(size, before.Max), Max: before.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	failures := func() float64 {
		n, err := observe.Metric(g, "mcp_gateway_audit_failures_total")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	limit(100_000)
	stop := keepCalling(t, g, "good__echo", 8)
	polltest.Until(t, "the disk is full", func() bool { return failures() > 100 })
	reached := len(up.reached())
	was := failures()
	polltest.Until(t, "more calls are refused", func() bool { return failures() > was+100 })
	if n := len(up.reached()); n != reached {
		t.Errorf("%d calls reached the upstream while the disk was full", n-reached)
	}
	limit(unix.RLIM_INFINITY)
	polltest.Until(t, "calls are made again", func() bool { return len(up.reached()) > reached+100 })
	succeeded, failed := stop()
	for _, message := range failed {
		if !strings.Contains(message, "the gateway cannot write its audit") {
			t.Errorf("a call failed with %q", message)
		}
	}
	terminate(t, g)
	checkEnded(t, g)
	decisions, requests, ends := map[string]int{}, map[string]bool{}, map[string]int{}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var l audited
		if json.Unmarshal([]byte(line), &l) != nil {
			continue // the disk was full in the middle of it
		}
		switch l.Event {
		case "decision":
			decisions[l.Arguments.Text]++
			requests[l.Request] = true
		case "end":
			ends[l.Request]++
		}
	}
	for _, text := range succeeded {
		if decisions[text] != 1 {
			t.Errorf("%q has %d decisions", text, decisions[text])
		}
	}
	if len(succeeded) != len(up.reached()) || len(decisions) != len(succeeded) {
		t.Errorf("%d calls succeeded, %d reached the upstream, %d have decisions", len(succeeded), len(up.reached()), len(decisions))
	}
	for request := range requests {
		if ends[request] != 1 {
			t.Errorf("request %s has %d ends", request, ends[request])
		}
	}
}
