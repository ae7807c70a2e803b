package faults

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// audited has the members of an audit line that these tests read.
type audited struct {
	Event, Request, Item, Native, Upstream, Effect, Rule, Outcome, Digest string
	Principal                                                             struct{ Subject, Proof string }
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
	all := readAudit(t, file)
	if len(all) != len(lines)+2 || all[len(all)-1].Outcome != "ok" {
		t.Errorf("%d lines became %d, the last is %+v", len(lines), len(all), all[len(all)-1])
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
		if lines := readAudit(t, name); len(lines) != want {
			t.Errorf("%s has %d lines, want %d", name, len(lines), want)
		}
	}
}
