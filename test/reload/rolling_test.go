package reload

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

const (
	restarts       = 4 // of each gateway
	rollingClients = 4 // of each era
)

// replica is one of the gateways behind the balancer.
type replica struct {
	listen, admin, file string
	gateway             *rig.Gateway
	ready               atomic.Bool
}

func (r *replica) start(t *testing.T) { r.gateway = rig.StartGatewayOn(t, r.listen, r.admin, r.file) }

// probe updates ready with the gateway's readiness, as the probes of a cluster do: with some delay.
func (r *replica) probe(ctx context.Context) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		response, err := client.Get("http://" + r.admin + "/readyz")
		if err == nil {
			response.Body.Close()
		}
		r.ready.Store(err == nil && response.StatusCode == http.StatusOK)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// balance forwards each new TCP connection to a ready replica, in turn.
func balance(t *testing.T, replicas []*replica) (url string) {
	t.Helper()
	in, err := net.Listen("tcp", netns.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, r := range replicas {
		wg.Go(func() { r.probe(ctx) })
	}
	wg.Go(func() {
		for turn := 0; ; turn++ {
			client, err := in.Accept()
			if err != nil {
				return
			}
			to := ""
			for i := range replicas {
				if r := replicas[(turn+i)%len(replicas)]; to == "" && r.ready.Load() {
					to = r.listen
				}
			}
			wg.Go(func() { pass(client, to) }) // closes the connection if no replica is ready
		}
	})
	t.Cleanup(func() {
		cancel()
		in.Close()
		wg.Wait()
	})
	return "http://" + in.Addr().String() + "/mcp"
}

func pass(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // until either side ends the connection
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	wg.Wait()
}

// Gateways are restarted one after another while clients call and reconnect. Each call ends with an answer or an error, no answered call is lost,
// and no call is made twice.
func TestRollingRestart(t *testing.T) {
	count := newCounter()
	dir := t.TempDir()
	text := fmt.Sprintf("startup_wait: 30s\ndrain_timeout: 10s\ntelemetry: {log: {level: warn}}\nupstreams:\n  l: {url: %q, required: true}\n  m: {url: %q, required: true}\n",
		remote(t, "l", false, count), remote(t, "m", true, count))
	var replicas []*replica
	for i := range 2 {
		r := &replica{listen: netns.Addr(), admin: netns.Addr(), file: filepath.Join(dir, fmt.Sprint(i), "gateway.yaml")}
		write(t, r.file, text+fmt.Sprintf("state_dir: %q\n", filepath.Join(dir, fmt.Sprint(i), "state")))
		r.start(t)
		replicas = append(replicas, r)
	}
	url := balance(t, replicas)
	polltest.UntilNil(t, "the balancer finds both", func() error {
		for i, r := range replicas {
			if !r.ready.Load() {
				return fmt.Errorf("gateway %d is not ready", i)
			}
		}
		return nil
	})

	ctx, cancel := context.WithTimeout(t.Context(), 3*within)
	defer cancel()
	var group sync.WaitGroup
	var answered, refused, cut, opened atomic.Int64
	over := make(chan struct{})
	for i := range 2 * rollingClients {
		revision := []string{raw.Legacy, raw.Modern}[i%2]
		group.Go(func() {
			var c *raw.Client
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-time.After(breath):
				}
				if c == nil {
					fresh, err := raw.Open(ctx, url, revision)
					if err != nil {
						continue // refused: the next replica may accept it
					}
					c = fresh
					opened.Add(1)
				}
				name := []string{"l", "m"}[n/2%2]
				text := fmt.Sprintf("%d-%d", i, n)
				_, err := echo(ctx, c, name+"__echo", text)
				times := count.times(text)
				switch {
				case err == nil && times != 1:
					t.Errorf("a call was answered and made %d times", times)
				case err == nil:
					answered.Add(1)
					continue
				case times > 1:
					t.Errorf("a call was made %d times and ended with %v", times, err)
				case explicit(err):
					refused.Add(1)
				case times > 0:
					t.Errorf("a call was made and its answer lost: %v", err)
				default:
					cut.Add(1)
				}
				c = nil // reconnects; a session is bound to one gateway
			}
		})
	}
	for n := range 2 * restarts {
		r := replicas[n%2]
		before := answered.Load()
		if err := r.gateway.Process.Stop(within); err != nil {
			t.Errorf("a gateway did not shut down cleanly: %v", err)
		}
		r.start(t)
		polltest.UntilNil(t, "the balancer finds it, and calls are answered", func() error {
			if !r.ready.Load() || answered.Load() < before+20 {
				return fmt.Errorf("ready %t, %d calls answered", r.ready.Load(), answered.Load()-before)
			}
			return nil
		})
	}
	close(over)
	group.Wait()
	t.Logf("%d restarts, %d calls answered, %d refused with an error, %d without a connection, clients connected %d times",
		2*restarts, answered.Load(), refused.Load(), cut.Load(), opened.Load())
	if opened.Load() <= 2*rollingClients {
		t.Error("no client had to reconnect, so the test proves nothing")
	}
}
