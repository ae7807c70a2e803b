package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// resources are the resources of a gateway that can leak.
type resources struct{ goroutines, files, processes int }

func (h resources) within(bound resources) bool {
	return h.goroutines <= bound.goroutines && h.files <= bound.files && h.processes <= bound.processes
}

func resourcesOf(g *rig.Gateway) (resources, error) {
	goroutines, err := metric(g, "go_goroutines")
	if err != nil {
		return resources{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Process.PID()))
	if err != nil {
		return resources{}, err
	}
	processes, err := descendants(g.Process.PID())
	return resources{int(goroutines), len(files), len(processes)}, err
}

// descendants returns the children of a process, their children, and so on.
func descendants(pid int) ([]int, error) {
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

// After bursts of all kinds of failing calls and of restarts, the gateway holds no more resources than after the first burst.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	impatient := rig.Config{"timeout": callTimeout}
	u.stdio("good", good, nil)
	u.http("good-http", good, nil)
	u.stdio("dies", dies, nil)
	u.stdio("noisy", noisy, impatient)
	u.stdio("liar", liar, impatient)
	u.http("liar-http", liar, nil)
	u.stdio("broken", broken, impatient)
	u.http("broken-http", broken, nil)
	u.http("cutter", cutter, nil)
	u.stdio("slow", slow, impatient)
	u.http("slow-http", slow, impatient)
	u.stdio("reborn", reborn, nil)
	u.http("reborn-http", reborn, nil)
	g := u.gateway(nil)

	burst(t, g, u)
	base := settled(t, g)
	t.Logf("after the first burst: %+v", base)
	for range 3 {
		burst(t, g, u)
	}
	polltest.UntilNil(t, "the return to the base line", func() error {
		now, err := resourcesOf(g)
		if err == nil && !now.within(base) {
			err = fmt.Errorf("%+v, want no more than %+v", now, base)
		}
		return err
	})
}

// burst makes every failure many times, concurrently, opens and closes sessions and streams, and restarts all servers that can restart.
func burst(t *testing.T, g *rig.Gateway, u *upstreams) {
	t.Helper()
	ctx := bounded(t)
	var wg sync.WaitGroup
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		for range 4 {
			c := client(t, g, revision)
			stream, err := c.Subscribe(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			for upstream, tools := range faults {
				for _, tool := range tools {
					wg.Go(func() {
						if _, err := use(ctx, c, upstream+"__"+tool, ""); err == nil {
							t.Errorf("%s of %s worked", tool, upstream)
						}
					})
				}
			}
		}
	}
	wg.Wait()
	c := client(t, g, raw.Legacy)
	pid, err := echo(ctx, c, "reborn")
	if err != nil {
		t.Fatal(err)
	}
	kill(t, pid)
	u.remote["reborn-http"].Kill()
	u.remote["reborn-http"].start(t)
	for name := range u.config {
		polltest.UntilNil(t, "a call that works", func() error { _, err := echo(ctx, c, name); return err })
	}
}

// faults are calls that fail.
var faults = map[string][]string{
	"dies": {"die"}, "noisy": {"huge", "merged", "utf8"}, "liar": {"lie"}, "liar-http": {"lie"}, "broken": {"broken"}, "broken-http": {"broken"},
	"cutter": {"cut", "cut-stream"}, "slow": {"sleep"}, "slow-http": {"sleep"},
}

// settled waits until the gateway's resources no longer change, and returns the maximum of that time. Each measurement opens a connection, and the
// gateway may not have noticed the end of the previous one: the slack allows for that.
func settled(t *testing.T, g *rig.Gateway) resources {
	t.Helper()
	const samples, slack = 20, 4
	var least, most resources
	same := 0
	polltest.UntilNil(t, "a state that lasts", func() error {
		now, err := resourcesOf(g)
		if err != nil {
			return err
		}
		if same == 0 {
			least, most = now, now
		}
		least = resources{min(least.goroutines, now.goroutines), min(least.files, now.files), min(least.processes, now.processes)}
		most = resources{max(most.goroutines, now.goroutines), max(most.files, now.files), max(most.processes, now.processes)}
		if most.goroutines-least.goroutines > slack || most.files-least.files > slack || most.processes != least.processes {
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
