package reload

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
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
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

var (
	seed     = flag.Uint64("seed", 0, "what the changes of the configuration come from; 0: the clock")
	duration = flag.Duration("for", 5*time.Second, "for how long the configuration is changed")
)

const (
	reloadEvery = 200 * time.Millisecond
	clientsEach = 10 // of each era
	breath      = 10 * time.Millisecond
)

// The kinds of servers.
const (
	overLegacy = iota
	overModern
	overStdio
	kinds
)

// churned is an upstream whose entry is added, removed and changed.
type churned struct {
	name, url string
	kind      int

	on     bool
	prefix string
	env    int  // a change starts a new process
	slow   int  // a change of the timeout makes a new connection
	denied bool // its tool is denied by policy
}

func (u *churned) change(r *rand.Rand) {
	switch r.IntN(5) {
	case 0, 1:
		u.on = !u.on
	case 2:
		u.prefix = fmt.Sprintf("%s-%d", u.name, r.IntN(3))
	case 3:
		u.slow++
		u.env++
	default:
		u.denied = !u.denied
	}
}

func (u *churned) entry(self, mark string) string {
	if !u.on {
		return ""
	}
	way := fmt.Sprintf("url: %q", u.url)
	if u.kind == overStdio {
		way = fmt.Sprintf("command: %q, args: [%s, %s], env: {MARK: %q, LIFE: \"%d\"}", self, role, u.name, mark, u.env)
	}
	deny := ""
	if u.denied {
		deny = "echo"
	}
	return fmt.Sprintf("  %s: {%s, prefix: %s, timeout: %ds, tools: {deny: [%s]}}\n", u.name, way, u.prefix, 20+u.slow, deny)
}

// tool returns the public name of the tool, "" if clients do not see it.
func (u *churned) tool() string {
	if !u.on || u.denied {
		return ""
	}
	return u.prefix + "__echo"
}

func published(all []*churned) (tools []string) {
	for _, u := range all {
		if tool := u.tool(); tool != "" {
			tools = append(tools, tool)
		}
	}
	return tools
}

func TestReloadsUnderLoad(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("reload-%d-%d", os.Getpid(), *seed)
	count := newCounter()

	stay := fmt.Sprintf("startup_wait: 30s\ndrain_timeout: 5s\ntelemetry: {log: {level: warn}}\nupstreams:\n  stay-l: {url: %q}\n  stay-m: {url: %q}\n  stay-s: {command: %q, args: [%s, stay-s], env: {MARK: %q}}\n",
		remote(t, "stay-l", false, count), remote(t, "stay-m", true, count), self, role, mark)
	stayers := []string{"stay-l__echo", "stay-m__echo", "stay-s__echo"}
	var all []*churned
	for i := range 6 {
		u := &churned{name: fmt.Sprintf("c%d", i), prefix: fmt.Sprintf("c%d", i), kind: i % kinds, on: i%2 == 0}
		if u.kind != overStdio {
			u.url = remote(t, u.name, u.kind == overModern, count)
		}
		all = append(all, u)
	}
	text := func() string {
		var b strings.Builder
		b.WriteString(stay)
		for _, i := range random.Perm(len(all)) {
			b.WriteString(all[i].entry(self, mark))
		}
		return b.String()
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	write(t, file, text())
	g := run(t, file)

	// An upstream that stays keeps its process: all its answers come from the same one.
	l := &load{t: t, g: g, count: count, stayers: stayers, over: make(chan struct{})}
	tools := published(all)
	l.published.Store(&tools)
	ctx, cancel := context.WithTimeout(t.Context(), *duration+2*within)
	defer cancel()
	for i := range 2 * clientsEach {
		revision := []string{raw.Legacy, raw.Modern}[i%2]
		c, err := raw.Open(ctx, g.URL, revision)
		if err != nil {
			t.Fatal(err)
		}
		own := rand.New(rand.NewPCG(*seed, uint64(i+1)))
		l.group.Go(func() { l.work(ctx, c, i, own) })
	}
	reloads := 0
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for end := time.Now().Add(*duration); time.Now().Before(end) && l.bad.Load() == 0; reloads++ {
		<-tick.C
		before := published(all)
		all[random.IntN(len(all))].change(random)
		all[random.IntN(len(all))].change(random)
		tools := append(before, published(all)...)
		l.published.Store(&tools)
		[]func(*testing.T, string, string){write, replace}[random.IntN(2)](t, file, text())
		switch random.IntN(3) {
		case 0: // the gateway notices the changed file
		case 1:
			if err := syscall.Kill(g.Process.PID(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		default:
			l.group.Go(func() {
				if _, _, err := post(g); err != nil {
					t.Error(err)
				}
			})
		}
	}
	close(l.over)
	l.group.Wait()
	t.Logf("%d changes, %d calls at what stays, %d at what does not, %d of those with errors", reloads, l.calls.Load(), l.others.Load(), l.errors.Load())

	if status, body, err := post(g); err != nil || status != http.StatusOK {
		t.Fatalf("after the last change: %d %s %v", status, body, err)
	}
	want, processes := slices.Clone(stayers), []string{"stay-s"}
	for _, u := range all {
		if tool := u.tool(); tool != "" {
			want = append(want, tool)
		}
		if u.on && u.kind == overStdio {
			processes = append(processes, u.name)
		}
	}
	slices.Sort(processes)
	wantTools(t, g.URL, want...)
	polltest.UntilNil(t, "the processes of what is there", func() error {
		if got := children(mark); !slices.Equal(got, processes) {
			return fmt.Errorf("running %q, want %q", got, processes)
		}
		return nil
	})
	if l.calls.Load() == 0 || l.others.Load() == l.errors.Load() {
		t.Error("no calls were answered, so the test proves nothing")
	}
}

// load is the clients and their observations.
type load struct {
	t       *testing.T
	g       *rig.Gateway
	count   *counter
	stayers []string
	over    chan struct{}
	group   sync.WaitGroup

	// published are the tools of the changing upstreams, in the current file and in the previous one.
	published                  atomic.Pointer[[]string]
	pids                       sync.Map // of upstreams that stay, by name
	calls, others, errors, bad atomic.Int64
}

func (l *load) wrong(format string, a ...any) {
	if l.bad.Add(1) <= 10 {
		l.t.Errorf(format, a...)
	}
}

// work calls tools until the test ends.
func (l *load) work(ctx context.Context, c *raw.Client, client int, r *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-l.over:
			return
		case <-time.After(breath):
		}
		text := fmt.Sprintf("%d-%d", client, n)
		if r.IntN(3) > 0 {
			tool := l.stayers[r.IntN(len(l.stayers))]
			l.calls.Add(1)
			who, err := echo(ctx, c, tool, text)
			if err != nil {
				l.wrong("%s in %s: %v\n%s", tool, c.Revision(), err, l.g.Process.Output())
				continue
			}
			if before, there := l.pids.LoadOrStore(tool, who); there && before != who {
				l.wrong("%s was answered by %q, and before by %q", tool, who, before)
			}
			if n := l.count.times(text); n != 1 && tool != "stay-s__echo" {
				l.wrong("%s was called %d times with %s", tool, n, text)
			}
			continue
		}
		tools := *l.published.Load()
		if len(tools) == 0 {
			continue
		}
		tool := tools[r.IntN(len(tools))]
		name := tool[:len("c0")]
		l.others.Add(1)
		who, err := echo(ctx, c, tool, text)
		switch {
		case err == nil && !strings.HasPrefix(who, name+" "):
			l.wrong("%s was answered by %q", tool, who)
		case err != nil && !explicit(err):
			l.wrong("%s: %v", tool, err)
		case err != nil:
			l.errors.Add(1)
		}
		if n := l.count.times(text); n > 1 {
			l.wrong("%s was called %d times with %s", tool, n, text)
		}
	}
}

// children returns the sorted names of this test's servers on stdio. Supervisors have the name in their command line, too, and are left
// out.
func children(mark string) []string {
	var names []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), "MARK="+mark) {
			continue // the process has ended, or belongs to another user
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		args := strings.Split(string(line), "\x00")
		if err == nil && len(args) >= 3 && args[1] == role {
			names = append(names, args[2])
		}
	}
	slices.Sort(names)
	return names
}
