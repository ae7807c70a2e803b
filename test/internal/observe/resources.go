package observe

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/rig"
)

// Resources are the resources of a gateway that can leak.
type Resources struct{ Goroutines, Files, Processes int }

// Within reports whether none of the resources is more than in bound.
func (h Resources) Within(bound Resources) bool {
	return h.Goroutines <= bound.Goroutines && h.Files <= bound.Files && h.Processes <= bound.Processes
}

// ResourcesOf returns what the gateway holds now.
func ResourcesOf(g *rig.Gateway) (Resources, error) {
	goroutines, err := goroutinesOf(g)
	if err != nil {
		return Resources{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Process.PID()))
	if err != nil {
		return Resources{}, err
	}
	processes, err := Descendants(g.Process.PID())
	return Resources{goroutines, len(files), len(processes)}, err
}

// goroutinesOf counts goroutines by the profile if the gateway serves it. A scrape of metrics counts those that gather them too, and there are
// more of these when there are more series.
func goroutinesOf(g *rig.Gateway) (int, error) {
	status, body, err := Admin(g, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	if status != http.StatusOK {
		n, err := Metric(g, "go_goroutines")
		return int(n), err
	}
	var n int
	_, err = fmt.Sscanf(body, "goroutine profile: total %d", &n)
	return n, err
}

// Descendants returns the children of a process, their children, and so on.
func Descendants(pid int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		child, err := strconv.Atoi(strings.Split(file, "/")[2])
		if err != nil {
			return nil, err
		}
		// The format is: pid (name) state parent …; the name may contain anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], child)
	}
	var out []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		out = append(out, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return out, nil
}

// Settled waits until the gateway's resources no longer change, and returns the maximum of that time. Each measurement opens a connection, and the
// gateway may not have noticed the end of the previous one: the slack allows for that.
func Settled(t testing.TB, g *rig.Gateway) Resources {
	t.Helper()
	const samples, slack = 20, 4
	var least, most Resources
	same := 0
	polltest.UntilNil(t, "a state that lasts", func() error {
		now, err := ResourcesOf(g)
		if err != nil {
			return err
		}
		if same == 0 {
			least, most = now, now
		}
		least = Resources{min(least.Goroutines, now.Goroutines), min(least.Files, now.Files), min(least.Processes, now.Processes)}
		most = Resources{max(most.Goroutines, now.Goroutines), max(most.Files, now.Files), max(most.Processes, now.Processes)}
		if most.Goroutines-least.Goroutines > slack || most.Files-least.Files > slack || most.Processes != least.Processes {
			same = 0
			return fmt.Errorf("between %+v and %+v", least, most)
		}
		if same++; same < samples {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	return most
}

// CheckReturn waits until the gateway holds no more than at the time of bound. If the test fails and the gateway serves profiles, it logs the goroutines.
func CheckReturn(t testing.TB, g *rig.Gateway, bound Resources) {
	t.Helper()
	returned := false
	defer func() {
		if returned {
			return
		}
		if status, body, err := Admin(g, "/debug/pprof/goroutine?debug=1"); err == nil && status == http.StatusOK {
			t.Log(body)
		}
	}()
	polltest.UntilNil(t, "the return to the resources of before", func() error {
		now, err := ResourcesOf(g)
		if err == nil && !now.Within(bound) {
			err = fmt.Errorf("%+v, want no more than %+v", now, bound)
		}
		return err
	})
	returned = true
}
