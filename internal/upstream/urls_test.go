package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// New conversations use the URL with the fewest sessions. A URL that failed is avoided, for
// longer each time, and then tried by one session.
func TestURLPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newURLPool([]URL{{Name: "a"}, {Name: "b"}, {Name: "c"}})
		order := func() (names string) {
			for _, u := range p.order(time.Now()) {
				names += u.Name
			}
			return names
		}
		a, b := p.all[0], p.all[1]
		upstreamtest.Equal(t, "order at first", order(), "abc")
		began := time.Now()
		p.opened(a)
		upstreamtest.Equal(t, "order with a session at a", order(), "bca")
		p.opened(b)
		p.opened(b)
		upstreamtest.Equal(t, "order with two at b", order(), "cab")
		time.Sleep(time.Minute)
		p.closed(a, began, time.Now(), errors.New("gone"))
		upstreamtest.Equal(t, "order after a has failed", order(), "cba")
		if s := p.status(strings.ToUpper); s[0] != (URLStatus{Name: "a", Reason: "GONE"}) || s[1] != (URLStatus{Name: "b", Sessions: 2}) {
			t.Errorf("status %+v", s)
		}
		time.Sleep(30 * time.Second)
		upstreamtest.Equal(t, "order when the time of a has come", order(), "acb")
		p.try(a)
		upstreamtest.Equal(t, "order while a is tried", order(), "cba")
		if !p.failed(a, time.Now(), errors.New("still gone")) || p.failed(a, time.Now(), errors.New("still gone")) {
			t.Error("a new reason is not told from a known one")
		}
		p.closed(b, time.Now(), time.Now(), nil)
		upstreamtest.Equal(t, "order after a session has ended properly", order(), "cba")
		if !p.othersWork(b, time.Now()) {
			t.Error("c is not usable")
		}
		p.failed(p.all[2], time.Now(), errors.New("gone"))
		if p.othersWork(b, time.Now()) {
			t.Error("all have failed, but another one is usable")
		}
	})
}

// replicas are servers with the host names a.test, b.test, and so on, in an in-memory
// network.
type replicas struct {
	hosts map[string]*replica
	urls  []URL
}

type replica struct {
	*memoryNetwork
	*script
	refuses, hangs, fails atomic.Bool // connections; requests; calls, with status 500
	calls                 atomic.Int64

	mu    sync.Mutex
	conns []net.Conn // of clients
}

// drop refuses connections and closes those that are open.
func (r *replica) drop() {
	r.refuses.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

// connect opens a connection.
func (r *replica) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if r.refuses.Load() {
		return nil, errors.New("connection refused")
	}
	c, err := r.dial(ctx, network, addr)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conns = append(r.conns, c)
	}
	return c, err
}

func (r *replica) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.hangs.Load() {
		_, _ = io.Copy(io.Discard, q.Body) // so that the end of the connection is noticed
		<-q.Context().Done()
		return
	}
	r.script.ServeHTTP(w, q)
}

func startReplicas(t *testing.T, names ...string) (*replicas, *httpconn.Config) {
	all := &replicas{hosts: make(map[string]*replica)}
	for _, name := range names {
		r := &replica{memoryNetwork: &memoryNetwork{conns: make(chan net.Conn), over: make(chan struct{})}}
		r.script = &script{stateful: true, on: map[string]on{
			wire.MethodToolsList: lists[wire.MethodToolsList],
			wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
				r.calls.Add(1)
				if r.fails.Load() {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				answerJSON(w, m, `{"ok":"`+name+`"}`)
			},
		}}
		s := &http.Server{Handler: r}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Serve(r.memoryNetwork)
		}()
		t.Cleanup(func() {
			s.Close()
			<-done
		})
		all.hosts[name+".test:80"] = r
		u, err := url.Parse("http://" + name + ".test/mcp?key=secret")
		if err != nil {
			t.Fatal(err)
		}
		all.urls = append(all.urls, URL{URL: u, Name: name})
	}
	return all, &httpconn.Config{URL: all.urls[0].URL, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return all.hosts[addr].connect(ctx, network, addr)
	}}
}

// used returns the URL that the session uses, "" for none.
func used(o *Options) (names string) {
	for _, u := range o.urls.status(o.Mask) {
		names += strings.Repeat(u.Name, u.Sessions)
	}
	return names
}

// startAt runs a connector with several URLs until the test ends.
func startAt(t *testing.T, all *replicas, web *httpconn.Config, change func(*Options)) (*rig, *Options) {
	o := Options{
		Name: "files", Server: Server{HTTP: web, URLs: all.urls, Era: wire.EraLegacy}, Limits: connector.Limits{Timeout: time.Minute, RefreshMin: 1000 * time.Hour},
		Info: protocol.Info{Name: "gw", Version: "7"},
	}
	if change != nil {
		change(&o)
	}
	r := &rig{watch: newWatcher()}
	o.Observer = r.watch
	full := o.withDefaults()
	r.Connector = full.newConnector(nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if names := used(full); names != "" {
			t.Errorf("after the end %q are still used", names)
		}
	})
	return r, full
}

// A session stays at its URL, and moves to another one when that fails. The upstream is up
// as long as one URL works.
func TestSessionMovesToAnotherURL(t *testing.T) {
	for name, fail := range map[string]func(r *replica){
		"refuses": func(r *replica) { r.refuses.Store(true) },
		"hangs":   func(r *replica) { r.hangs.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, web := startReplicas(t, "a", "b")
				a, b := all.hosts["a.test:80"], all.hosts["b.test:80"]
				fail(a)
				r, o := startAt(t, all, web, nil)
				r.watch.wait(t, isReady)
				upstreamtest.Equal(t, "URL", used(o), "b")
				if got := r.do(t, "b"); got != "" {
					t.Error(got)
				}
				a.refuses.Store(false)
				a.hangs.Store(false)
				time.Sleep(10 * time.Minute)
				upstreamtest.Equal(t, "URL after the other one works again", used(o), "b")
				if s := o.urls.status(o.Mask)[0]; s.Reason == "" || strings.Contains(s.Reason, "secret") {
					t.Errorf("status %+v", s)
				}

				b.drop()
				if got := r.do(t, "a"); got != "" {
					t.Error(got)
				}
				synctest.Wait() // the lists are there
				upstreamtest.Equal(t, "state", r.Snapshot().State, connector.Ready)

				a.drop()
				if got := r.do(t, "a"); got == "" {
					t.Error("a call succeeds without a URL that works")
				}
				time.Sleep(time.Minute)
				upstreamtest.Equal(t, "state without a URL that works", r.Snapshot().State, connector.Down)
				b.refuses.Store(false)
				time.Sleep(time.Minute)
				if got := r.do(t, "b"); got != "" {
					t.Error(got)
				}
			})
		})
	}
}

// A session whose circuit breaker opens moves to a URL that works, as soon as no call is in
// flight, and without waiting for the breaker.
func TestOpenBreakerMovesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, web := startReplicas(t, "a", "b")
		a := all.hosts["a.test:80"]
		r, o := startAt(t, all, web, func(o *Options) {
			o.Health = connector.NewHealth(connector.HealthSettings{Failures: 3, Open: time.Hour})
		})
		r.watch.wait(t, isReady)
		upstreamtest.Equal(t, "URL", used(o), "a")
		a.fails.Store(true)
		for _, subject := range []string{"ann", "bob", "ann"} {
			c := upstreamtest.ToolCall("echo", subject, &upstreamtest.Peer{})
			c.Principal = &call.Principal{Subject: subject}
			if _, err := r.Do(t.Context(), c); err == nil {
				t.Error("a call succeeds")
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		upstreamtest.Equal(t, "URL after three failures", used(o), "b")
		if got := r.do(t, "b"); got != "" {
			t.Error(got)
		}
		upstreamtest.Equal(t, "calls at the URL that fails", a.calls.Load(), 3)
	})
}

// do calls a tool, and says what is wrong if the answer is not that of the replica.
func (r *rig) do(t *testing.T, replica string) string {
	t.Helper()
	if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))); got != `{"ok":"`+replica+`"}` {
		return "got " + got + ", want the answer of " + replica
	}
	return ""
}
