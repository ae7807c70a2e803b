package upstream

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// sessionsRig is a running Sessions with clients that can be reached outside of
// calls.
type sessionsRig struct {
	*Sessions
	s       *upstreamtest.Server
	watch   *originWatcher
	clients *fakeClients
}

// originWatcher is a watcher that records the origin of notifications.
type originWatcher struct {
	*watcher
	mu    sync.Mutex
	notes []string
}

func (w *originWatcher) Notified(from Origin, method string, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	who := "all"
	switch {
	case from.Client != nil:
		who = from.Client.Key
	case from.Principal != "":
		who = "principal"
	case from.Session != "":
		who = "set"
	}
	w.notes = append(w.notes, who+": "+method+string(params))
}

func (w *originWatcher) noted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes)
}

// fakeClients are clients between their calls.
type fakeClients struct {
	mu    sync.Mutex
	asked []string
	away  bool // the clients cannot be reached
	tasks map[string]*call.Call
}

func (p *fakeClients) Client(from Origin, c *call.Client) *call.Call {
	back := &upstreamtest.Peer{OnAsk: func(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.away {
			return nil, wire.Errorf(wire.CodeInternal, "away")
		}
		p.asked = append(p.asked, c.Key+": "+method)
		return wire.Raw(`{"roots":[{"uri":"file:///` + c.Key + `"}]}`), nil
	}}
	return &call.Call{Client: c, Session: from.Session, Back: back}
}

func (p *fakeClients) Task(_ Origin, id string) *call.Call { return p.tasks[id] }

func (p *fakeClients) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// startSessions runs Sessions with a fake server until the test ends.
func startSessions(t *testing.T, handle func(*upstreamtest.Instance, wire.Message), change func(*Options)) *sessionsRig {
	t.Helper()
	h := &sessionsRig{s: &upstreamtest.Server{Handle: handle}, watch: &originWatcher{watcher: newWatcher()}, clients: &fakeClients{tasks: map[string]*call.Call{}}}
	o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Server: Server{Pipe: h.s.Pipe}, Hooks: Hooks{Observer: h.watch, Outside: h.clients}, Scoping: Scoping{Sharing: PerClient}}
	if change != nil {
		change(&o)
	}
	h.run(t, o)
	return h
}

func (h *sessionsRig) run(t *testing.T, o Options) {
	t.Helper()
	h.serve(t, NewSessions(o))
}

// serve runs s until the test ends, and waits for its catalog.
func (h *sessionsRig) serve(t *testing.T, s *Sessions) {
	t.Helper()
	h.start(t, s)
	h.watch.wait(t, func(s connector.Snapshot) bool { return isReady(s) || s.State == connector.Idle })
}

// start runs s until the test ends.
func (h *sessionsRig) start(t *testing.T, s *Sessions) {
	t.Helper()
	h.Sessions = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// legacyCall returns a call of a legacy client with these capabilities.
func legacyCall(key, capabilities string, back call.BackChannel) *call.Call {
	c := upstreamtest.ToolCall("echo", key, back)
	c.Client.Capabilities = wire.Raw(capabilities)
	c.ShareKey = ownerOf(key)
	return c
}

// ownerOf returns the owner key of the calls of one client or principal.
func ownerOf(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

// modernCallBy returns a call of a modern client of a principal.
func modernCallBy(subject string) *call.Call {
	c := legacyCall("", `{}`, &upstreamtest.Peer{})
	c.Principal = &call.Principal{Subject: subject, AuthMethod: "api-key"}
	c.ShareKey = ownerOf(subject)
	c.Client.Key, c.Client.Revision = c.Principal.Key(), wire.Rev20260728
	return c
}

// call makes a call as the router does.
func (h *sessionsRig) call(ctx context.Context, c *call.Call) string {
	name, err := h.Session(ctx, c)
	if err != nil {
		return "error: " + err.Error()
	}
	d := *c
	d.Session = name
	r, err := h.Do(ctx, &d)
	if said := wire.ValueOf(r.Raw).Get("said"); err == nil && said.Exists() {
		return string(said.Raw())
	}
	return upstreamtest.Outcome(r, err)
}

// countCalls answers each tool call with the numbers of the instance and of the call
// in it.
func countCalls() func(*upstreamtest.Instance, wire.Message) {
	var mu sync.Mutex
	n := map[int]int{}
	return upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
		if m.Method == wire.MethodToolsCall {
			mu.Lock()
			defer mu.Unlock()
			n[l.N]++
			l.Result(m, fmt.Sprintf(`{"said":"instance %d, call %d"}`, l.N, n[l.N]))
		}
	})
}

func declared(l *upstreamtest.Instance, t *testing.T) string {
	m := l.Wait(t, upstreamtest.Method(wire.MethodInitialize))
	return string(wire.ValueOf(m.Params).Get("capabilities").Raw())
}

func TestSessionPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), nil)
		const able = `{"elicitation":{"url":{}},"sampling":{"context":{}},"tasks":{"list":{}},"extensions":{"com.example/x":{"y":1},"io.modelcontextprotocol/ui":{"z":1},"io.modelcontextprotocol/tasks":{}},"experimental":{"e":{}}}`
		ann, bob := legacyCall("ann", able, &upstreamtest.Peer{}), legacyCall("bob", `{}`, &upstreamtest.Peer{})
		var got []string
		for _, c := range []*call.Call{ann, bob, ann, modernCallBy("carl"), modernCallBy("dora"), modernCallBy("carl")} {
			got = append(got, h.call(t.Context(), c))
		}
		want := []string{
			`"instance 2, call 1"`, `"instance 3, call 1"`, `"instance 2, call 2"`, `"instance 4, call 1"`, `"instance 5, call 1"`, `"instance 4, call 2"`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("instances of the calls (-want +got):\n%s", diff)
		}
		for n, want := range map[int]string{
			1: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`,
			2: `{"elicitation":{"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/ui":{"z":1}},"experimental":{"e":{}}}`,
			3: `{}`,
			4: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`,
		} {
			if got := declared(h.s.Instance(n), t); got != want {
				t.Errorf("instance %d declared %s, want %s", n, got, want)
			}
		}
		if lists := slices.Contains(h.s.Instance(2).Methods(), wire.MethodToolsList); lists {
			t.Error("the catalog is gathered in a client's session")
		}
		h.EndClient("ann")
		synctest.Wait()
		if !h.s.Instance(2).Ended() || h.s.Instance(3).Ended() || h.s.Instance(1).Ended() {
			t.Error("the wrong sessions have ended: want only that of the client that left")
		}
		if got := h.call(t.Context(), ann); got != `"instance 6, call 1"` {
			t.Errorf("client after its return: %s", got)
		}
		stale := *ann
		stale.Session = nameOf(ofClient, "gone")
		if got := upstreamtest.Outcome(h.Do(t.Context(), &stale)); got != `error: upstream "files": `+"the session in which this was begun has ended (-32603)" {
			t.Errorf("a call in a session that has ended: %s", got)
		}
	})
}

// A principal has a session for each of its profiles: what a server keeps for one is nothing to
// another.
func TestSessionPerPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), func(o *Options) { o.Sharing = PerPrincipal })
		carl := legacyCall("s1", `{}`, &upstreamtest.Peer{})
		carl.Principal = modernCallBy("carl").Principal
		var got []string
		inProfile := modernCallBy("carl")
		inProfile.Principal = inProfile.Principal.In("coding")
		for _, c := range []*call.Call{modernCallBy("carl"), carl, modernCallBy("dora"), inProfile, carl, inProfile} {
			got = append(got, h.call(t.Context(), c))
		}
		if diff := cmp.Diff([]string{
			`"instance 2, call 1"`, `"instance 2, call 2"`, `"instance 3, call 1"`, `"instance 4, call 1"`, `"instance 2, call 3"`, `"instance 4, call 2"`,
		}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A server that fails for two principals, who have a session each, fails: its breakers open.
func TestBreakersOfSessionsPerPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := connector.NewHealth(connector.HealthSettings{Failures: 3, Open: time.Minute})
		h := startSessions(t, upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			switch m.Method {
			case wire.MethodToolsCall:
				l.Line(`{"jsonrpc":"2.0","id":%s,"result":5}`, m.ID)
			case wire.MethodPing:
				l.Result(m, `{}`)
			}
		}), func(o *Options) { o.Sharing, o.Health = PerPrincipal, health })
		open := func() int {
			open, _ := health.Breakers()
			return open.Sessions
		}
		for range 8 {
			h.call(t.Context(), modernCallBy("carl"))
			synctest.Wait() // the ping
			time.Sleep(time.Millisecond)
		}
		upstreamtest.Equal(t, "open breakers after failures of one principal", open(), 0)
		for range 3 {
			h.call(t.Context(), modernCallBy("dora"))
			time.Sleep(time.Millisecond)
		}
		upstreamtest.Equal(t, "open breakers after failures of another one", open(), 1)
	})
}

// All clients share one process over stdio, and the gateway declares all
// capabilities to it.
func TestSessionSharedOverLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), func(o *Options) { o.Sharing = Shared })
		for n, c := range []*call.Call{legacyCall("ann", `{}`, &upstreamtest.Peer{}), legacyCall("bob", `{"sampling":{}}`, &upstreamtest.Peer{}), modernCallBy("carl")} {
			if got, want := h.call(t.Context(), c), fmt.Sprintf(`"instance 1, call %d"`, n+1); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), func(o *Options) { o.MaxSessions, o.SessionIdle = 2, time.Hour })
		h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{}))
		time.Sleep(30 * time.Minute)
		h.call(t.Context(), legacyCall("bob", `{}`, &upstreamtest.Peer{}))
		got := h.call(t.Context(), legacyCall("eve", `{}`, &upstreamtest.Peer{}))
		if want := `error: upstream "files": ` + "overloaded: clients have opened as many sessions with it as they may (2); " +
			"end clients that are not needed, or raise max_sessions of the upstream (-32603)"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if !h.s.Instance(2).Ended() || h.s.Instance(3).Ended() {
			t.Error("the wrong sessions have ended: want only the idle one")
		}
		if got := h.call(t.Context(), legacyCall("eve", `{}`, &upstreamtest.Peer{})); got != `"instance 4, call 1"` {
			t.Errorf("after a session has ended: %s", got)
		}
	})
}

// A principal with many clients cannot use all sessions: a share stays free for
// other principals.
func TestSessionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), func(o *Options) { o.MaxSessions = 9 })
		got := make(map[string]int)
		open := func(who string, client int) string {
			c := legacyCall(fmt.Sprint(who, client), `{}`, &upstreamtest.Peer{})
			c.ShareKey = map[string]uint64{"ann": 1, "bob": 2, "eve": 3}[who]
			if said := h.call(t.Context(), c); strings.HasPrefix(said, "error") {
				return said
			}
			got[who]++
			return ""
		}
		for n := range 8 {
			open("ann", n)
		}
		refused := open("ann", 8)
		if want := "you have as many sessions with it as one principal, or one address, may have beside others"; !strings.Contains(refused, want) {
			t.Errorf("the principal with most sessions gets %q, want %q", refused, want)
		}
		for n := range 5 {
			open("bob", n)
			open("eve", n)
		}
		if diff := cmp.Diff(map[string]int{"ann": 5, "bob": 2, "eve": 1}, got); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		for n := range 8 {
			h.EndClient(fmt.Sprint("ann", n))
		}
		if got := open("eve", 9); got != "" {
			t.Errorf("after other sessions have ended: %s", got)
		}
	})
}

// subscribes answers as a legacy server with resource subscriptions.
func subscribes(l *upstreamtest.Instance, m wire.Message) {
	switch m.Method {
	case wire.MethodInitialize:
		l.Result(m, `{"protocolVersion":"2025-11-25","capabilities":`+subscribable+`,"serverInfo":{"name":"fake","version":"1"}}`)
	case wire.MethodResourcesList:
		l.Result(m, `{"resources":[]}`)
	case wire.MethodTemplatesList:
		l.Result(m, `{"resourceTemplates":[]}`)
	case wire.MethodResourcesSubscribe, wire.MethodResourcesUnsub:
		l.Result(m, `{}`)
	}
}

// A call and a subscription keep a session alive for any length of time.
func TestUsedSessionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, subscribes, func(o *Options) { o.SessionIdle, o.Timeout = time.Minute, time.Hour })
		ann := legacyCall("ann", `{}`, &upstreamtest.Peer{})
		ann.Session, _ = h.Session(t.Context(), ann)
		cancel, err := h.Subscribe(t.Context(), ann, "x:a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		h.s.Instance(2).Line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a"}}`)
		synctest.Wait()
		if diff := cmp.Diff([]string{`ann: notifications/resources/updated{"uri":"x:a"}`}, h.watch.noted()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if slices.Contains(h.s.Instance(1).Methods(), wire.MethodResourcesSubscribe) {
			t.Error("the subscription used the session of all clients")
		}
		cancel()
		cancel()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !h.s.Instance(2).Ended() {
			t.Error("the idle session did not end")
		}
	})
}

// Notifications in a client's session belong to that client.
func TestNotificationsOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), nil)
		h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{}))
		h.call(t.Context(), modernCallBy("carl"))
		for n := 1; n <= 3; n++ {
			h.s.Instance(n).Line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, n)
			h.s.Instance(n).Line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			synctest.Wait()
		}
		want := []string{
			`all: notifications/message{"level":"info","data":1}`,
			`ann: notifications/message{"level":"info","data":2}`, `ann: notifications/tools/list_changed`,
			`principal: notifications/message{"level":"info","data":3}`, `principal: notifications/tools/list_changed`,
		}
		if diff := cmp.Diff(want, h.watch.noted()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The next call restarts a client's process that has ended. The state of the
// upstream does not change.
func TestSessionRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := connector.NewMetrics()
		h := startSessions(t, countCalls(), func(o *Options) { o.Metrics = metrics })
		ann := legacyCall("ann", `{}`, &upstreamtest.Peer{})
		h.call(t.Context(), ann)
		h.s.Instance(2).Quit()
		synctest.Wait()
		if up := metric(t, metrics, "mcp_gateway_upstream_up"); up != 1 || h.Snapshot().State != connector.Ready {
			t.Errorf("the upstream is up: %v, %s", up, h.Snapshot().State)
		}
		if got := h.call(t.Context(), ann); got != `"instance 3, call 1"` {
			t.Errorf("after the restart: %s", got)
		}
		if got := declared(h.s.Instance(3), t); got != `{}` {
			t.Errorf("declared %s after the restart", got)
		}
		h.EndClient("ann")
		synctest.Wait()
		if metric(t, metrics, "mcp_gateway_upstream_up") != 1 {
			t.Error("the end of a client's session removed the metrics of the upstream")
		}
	})
}
