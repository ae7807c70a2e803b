package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/test/internal/rig"
)

// TestProbeEverything runs `gateway check` on the reference server: the probe calls read-only items and finds no fault.
func TestProbeEverything(t *testing.T) {
	command := rig.EverythingCommand(t)
	config := rig.Config{"upstreams": rig.Upstreams{"every": {"command": command[0], "args": command[1:], "conformance": "strict"}}}
	var report struct {
		OK        bool
		Upstreams []struct {
			State  string
			Faults int
		}
		Probes   []struct{ Kind, Item, Outcome string }
		Findings []struct{ What, Item string }
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := rig.CheckCommand(t, config, "--probe", "every", "--json", "--call-timeout", "8s")
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Errorf("status %d: %s", exit.ExitCode(), exit.Stderr)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !report.OK || len(report.Upstreams) != 1 || report.Upstreams[0].State != "ready" || report.Upstreams[0].Faults != 0 {
		t.Errorf("the report is %+v", report)
	}
	got := map[string]string{}
	resources := 0
	for _, p := range report.Probes {
		if p.Kind != "resource" {
			got[p.Kind+" "+p.Item] = p.Outcome
		} else if resources++; p.Outcome != "ok" {
			t.Errorf("resource %s: %s", p.Item, p.Outcome)
		}
	}
	if resources != 7 {
		t.Errorf("%d resources, want 7", resources)
	}
	const ok, skipped = "ok", "skipped"
	want := map[string]string{
		"tool echo": skipped, "tool get-annotated-message": ok, "tool get-env": ok, "tool get-resource-links": ok, "tool get-resource-reference": ok,
		"tool get-structured-content": ok, "tool get-sum": skipped, "tool get-tiny-image": ok, "tool gzip-file-as-resource": skipped,
		"tool simulate-research-query": skipped, "tool toggle-simulated-logging": skipped, "tool toggle-subscriber-updates": skipped,
		"tool trigger-elicitation-request": skipped, "tool trigger-long-running-operation": "timeout", "tool trigger-sampling-request": skipped,
		"tool trigger-url-elicitation": skipped,
		"prompt simple-prompt":         ok, "prompt args-prompt": skipped, "prompt completable-prompt": skipped, "prompt resource-prompt": skipped,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
