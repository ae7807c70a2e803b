package conformance

import (
	"strings"
	"testing"

	"mcpgateway/test/internal/rig"
)

// tasksPassed is the number of checks of the tasks scenarios that the tasks fixture passes. It fails none.
const tasksPassed = 44

// The conformance fixture does not support tasks, so their scenarios use the tasks fixture.
func TestTasksConformance(t *testing.T) {
	direct, err := runTasks(t, rig.Tasks(t, rig.Modern))
	if err != nil {
		t.Fatal(err)
	}
	if sum := direct.total(); sum.passed != tasksPassed || sum.failed != 0 {
		t.Fatalf("the tasks fixture itself: %v, want %d passed, 0 failed: %v", sum, tasksPassed, direct)
	}
	stdio := rig.TasksCommand(t, rig.Modern)
	for _, cell := range []struct {
		name      string
		upstreams rig.Upstreams
	}{
		{"HTTP", rig.Upstreams{"tasks": {"prefix": "", "url": rig.Tasks(t, rig.Modern)}}},
		{"stdio", rig.Upstreams{"tasks": {"prefix": "", "era": "modern", "command": stdio[0], "args": stdio[1:]}}},
		{"HTTP beside tasks of the other era", rig.Upstreams{
			"tasks":  {"prefix": "", "url": rig.Tasks(t, rig.Modern)},
			"beside": {"url": rig.Tasks(t, rig.Legacy)},
		}},
	} {
		t.Run(cell.name, func(t *testing.T) {
			through, err := runTasks(t, rig.StartGateway(t, rig.Config{"upstreams": cell.upstreams}).URL)
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range compare(direct, through) {
				t.Error(wrong)
			}
		})
	}
}

// runTasks runs the suite and returns the results of the tasks scenarios.
func runTasks(t *testing.T, url string) (results, error) {
	t.Helper()
	all, err := start(t, append([]string{"--url", url}, suite20260728.args...))
	tasks := make(results)
	for scenario, tally := range all {
		if strings.HasPrefix(scenario, "tasks-") {
			tasks[scenario] = tally
		}
	}
	return tasks, err
}
