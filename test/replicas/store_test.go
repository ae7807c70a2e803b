package replicas

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// outage is how long the store is away or slow.
const outage = 5 * time.Second

// Calls go on whatever happens to the store, and replicas share again when it is back.
func TestStoreOutages(t *testing.T) {
	addr, server := rig.StartRedis(t)
	wire := rig.NewSlowWire(t, addr)
	r, servers := startAll(t, redisAt(wire.Addr))
	ctx, cancel := context.WithTimeout(t.Context(), 10*within)
	defer cancel()

	for _, tt := range []struct {
		name        string
		away        bool // the store answers nobody meanwhile
		begin, over func(t *testing.T)
	}{
		{"stopped, and empty afterwards", true, func(*testing.T) { server.Kill() }, func(t *testing.T) { server = rig.StartRedisOn(t, addr) }},
		{"paused", true, func(t *testing.T) { signal(t, server.PID(), syscall.SIGSTOP) }, func(t *testing.T) { signal(t, server.PID(), syscall.SIGCONT) }},
		{"100 ms slower", false, func(*testing.T) { wire.Delay.Store(int64(100 * time.Millisecond)) }, func(*testing.T) { wire.Delay.Store(0) }},
	} {
		t.Log(tt.name)
		l := &load{t: t, url: r.URL, servers: servers, over: make(chan struct{}), strict: true, mark: tt.name}
		clients, end := context.WithCancel(ctx)
		l.start(clients)
		before := l.answered.Load()
		tt.begin(t)
		begun := time.Now()
		if tt.away {
			waitStore(t, r, false)
		}
		noticed := time.Since(begun)
		time.Sleep(outage - noticed) // the outage itself
		during := l.answered.Load() - before
		tt.over(t)
		begun = time.Now()
		waitStore(t, r, true)
		t.Logf("noticed after %v, %d calls during the outage, the store is used again after %v", noticed, during, time.Since(begun))
		if during == 0 {
			t.Error("no calls were answered during the outage")
		}
		sharesSubscriptions(clients, t, l, r, servers["legacy"])
		l.end(end)
		if n := l.failed.Load(); n > 0 {
			t.Errorf("%d of %d calls failed", n, n+l.answered.Load())
		}
	}
}

// sharesSubscriptions checks that a session which subscribes at one replica is told at another.
func sharesSubscriptions(ctx context.Context, t *testing.T, l *load, r *rig.Replicas, s *server) {
	t.Helper()
	c, err := raw.Open(ctx, r.URL, raw.Legacy)
	if err != nil {
		t.Fatal(err)
	}
	h := l.listen(ctx, c)
	subscribe(ctx, t, c)
	polltest.UntilNil(t, "an update at another replica", func() error {
		if err := s.touch(ctx); err != nil {
			return err
		}
		if h.updates.Load() == 0 {
			return errors.New("the client was not told")
		}
		return nil
	})
}

// waitStore waits until all replicas say that the store can be used, or that it cannot.
func waitStore(t *testing.T, r *rig.Replicas, up bool) {
	t.Helper()
	want := 0.0
	if up {
		want = 1
	}
	for _, g := range r.Gateways {
		polltest.UntilNil(t, "mcp_gateway_store_up", func() error {
			got, err := metric(g.Admin+"/metrics", "mcp_gateway_store_up")
			if err == nil && got != want {
				err = fmt.Errorf("it is %v, want %v", got, want)
			}
			return err
		})
	}
}

// metric returns the value of a metric without labels.
func metric(url, name string) (float64, error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", url, name)
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}
