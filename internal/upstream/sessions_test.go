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
	"mcpgateway/internal/wire"
)

// house is Sessions at work, with clients that can be reached outside of calls.
type house struct {
	*Sessions
	s      *fakeServer
	watch  *originWatcher
	people *people
}

// originWatcher is a watcher that remembers where notifications came from.
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

// people are clients between their calls.
type people struct {
	mu    sync.Mutex
	asked []string
	away  bool // they cannot be reached
	tasks map[string]*call.Call
}

func (p *people) Client(from Origin, c *call.Client) *call.Call {
	back := &peer{ask: func(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
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

func (p *people) Task(_ Origin, id string) *call.Call { return p.tasks[id] }

func (p *people) were() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func keep(t *testing.T, handle func(*fakeLife, wire.Message), change func(*Options)) *house {
	t.Helper()
	h := &house{s: &fakeServer{handle: handle}, watch: &originWatcher{watcher: newWatcher()}, people: &people{tasks: map[string]*call.Call{}}}
	o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Server: Server{Pipe: h.s.pipe}, Hooks: Hooks{Observer: h.watch, Outside: h.people}, Scoping: Scoping{Sharing: PerClient}}
	if change != nil {
		change(&o)
	}
	h.run(t, o)
	return h
}

func (h *house) run(t *testing.T, o Options) {
	t.Helper()
	h.serve(t, NewSessions(o))
}

// serve has sessions that were made run, until the test ends.
func (h *house) serve(t *testing.T, s *Sessions) {
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
	h.watch.wait(t, isReady)
}

// by makes a call of a legacy client with these capabilities.
func by(key, capabilities string, back call.BackChannel) *call.Call {
	c := toolCall("echo", key, back)
	c.Client.Capabilities = wire.Raw(capabilities)
	c.ShareKey = ownerOf(key)
	return c
}

// ownerOf is the owner of the calls of one client, or principal, of a test.
func ownerOf(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

// byModern makes a call of a modern client of a principal.
func byModern(subject string) *call.Call {
	c := by("", `{}`, &peer{})
	c.Principal = &call.Principal{Subject: subject, AuthMethod: "api-key"}
	c.ShareKey = ownerOf(subject)
	c.Client.Key, c.Client.Revision = c.Principal.Key(), wire.Rev20260728
	return c
}

// call makes a call as the router does.
func (h *house) call(ctx context.Context, c *call.Call) string {
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
	return outcomeOf(r, err)
}

// counts answers calls of tools with the number of the life and of the call in it.
func counts() func(*fakeLife, wire.Message) {
	var mu sync.Mutex
	n := map[int]int{}
	return legacy(func(l *fakeLife, m wire.Message) {
		if m.Method == wire.MethodToolsCall {
			mu.Lock()
			defer mu.Unlock()
			n[l.n]++
			l.result(m, fmt.Sprintf(`{"said":"life %d, call %d"}`, l.n, n[l.n]))
		}
	})
}

func declared(l *fakeLife, t *testing.T) string {
	m := l.wait(t, method(wire.MethodInitialize))
	return string(wire.ValueOf(m.Params).Get("capabilities").Raw())
}

func isOver(l *fakeLife) bool {
	select {
	case <-l.finished:
		return true
	default:
		return false
	}
}

func TestSessionPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), nil)
		const able = `{"elicitation":{"url":{}},"sampling":{"context":{}},"tasks":{"list":{}},"extensions":{"com.example/x":{"y":1},"io.modelcontextprotocol/ui":{"z":1},"io.modelcontextprotocol/tasks":{}},"experimental":{"e":{}}}`
		ann, bob := by("ann", able, &peer{}), by("bob", `{}`, &peer{})
		var got []string
		for _, c := range []*call.Call{ann, bob, ann, byModern("carl"), byModern("dora"), byModern("carl")} {
			got = append(got, h.call(t.Context(), c))
		}
		want := []string{
			`"life 2, call 1"`, `"life 3, call 1"`, `"life 2, call 2"`, `"life 4, call 1"`, `"life 5, call 1"`, `"life 4, call 2"`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("who shares a life (-want +got):\n%s", diff)
		}
		for life, want := range map[int]string{
			1: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`,
			2: `{"elicitation":{"url":{}},"sampling":{},"extensions":{"io.modelcontextprotocol/ui":{"z":1}},"experimental":{"e":{}}}`,
			3: `{}`,
			4: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`,
		} {
			if got := declared(h.s.life(life), t); got != want {
				t.Errorf("life %d declared %s, want %s", life, got, want)
			}
		}
		if lists := slices.Contains(h.s.life(2).methods(), wire.MethodToolsList); lists {
			t.Error("the catalog is gathered in a client's session")
		}
		h.EndClient("ann")
		synctest.Wait()
		if !isOver(h.s.life(2)) || isOver(h.s.life(3)) || isOver(h.s.life(1)) {
			t.Error("not exactly the session of the client that left has ended")
		}
		if got := h.call(t.Context(), ann); got != `"life 6, call 1"` {
			t.Errorf("the client that came again: %s", got)
		}
		stale := *ann
		stale.Session = nameOf(ofClient, "gone")
		if got := outcomeOf(h.Do(t.Context(), &stale)); got != `error: upstream "files": `+"the session in which this was begun has ended (-32603)" {
			t.Errorf("a call in a session that has ended: %s", got)
		}
	})
}

func TestSessionPerPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), func(o *Options) { o.Sharing = PerPrincipal })
		carl := by("s1", `{}`, &peer{})
		carl.Principal = byModern("carl").Principal
		var got []string
		for _, c := range []*call.Call{byModern("carl"), carl, byModern("dora")} {
			got = append(got, h.call(t.Context(), c))
		}
		if diff := cmp.Diff([]string{`"life 2, call 1"`, `"life 2, call 2"`, `"life 3, call 1"`}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Over stdio all share one process that was told everything.
func TestSessionSharedOverLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), func(o *Options) { o.Sharing = Shared })
		for n, c := range []*call.Call{by("ann", `{}`, &peer{}), by("bob", `{"sampling":{}}`, &peer{}), byModern("carl")} {
			if got, want := h.call(t.Context(), c), fmt.Sprintf(`"life 1, call %d"`, n+1); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), func(o *Options) { o.MaxSessions, o.SessionIdle = 2, time.Hour })
		h.call(t.Context(), by("ann", `{}`, &peer{}))
		time.Sleep(30 * time.Minute)
		h.call(t.Context(), by("bob", `{}`, &peer{}))
		got := h.call(t.Context(), by("eve", `{}`, &peer{}))
		if want := `error: upstream "files": ` + "overloaded: there are 2 sessions of clients with it, which leaves none for you; " +
			"end clients that are not needed, or raise max_sessions of the upstream (-32603)"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if !isOver(h.s.life(2)) || isOver(h.s.life(3)) {
			t.Error("not exactly the session that nobody used for an hour has ended")
		}
		if got := h.call(t.Context(), by("eve", `{}`, &peer{})); got != `"life 4, call 1"` {
			t.Errorf("when there is a place again: %s", got)
		}
	})
}

// No principal has more sessions than are left for all others, so that one with many
// clients does not lock others out.
func TestSessionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), func(o *Options) { o.MaxSessions = 9 })
		got := make(map[string]int)
		open := func(who string, client int) string {
			c := by(fmt.Sprint(who, client), `{}`, &peer{})
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
			t.Errorf("the client with most sessions gets %q, want %q", refused, want)
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
			t.Errorf("when others have ended theirs: %s", got)
		}
	})
}

// subscribes answers as a legacy server does that tells of updates.
func subscribes(l *fakeLife, m wire.Message) {
	switch m.Method {
	case wire.MethodInitialize:
		l.result(m, `{"protocolVersion":"2025-11-25","capabilities":`+subscribable+`,"serverInfo":{"name":"fake","version":"1"}}`)
	case wire.MethodResourcesList:
		l.result(m, `{"resources":[]}`)
	case wire.MethodTemplatesList:
		l.result(m, `{"resourceTemplates":[]}`)
	case wire.MethodResourcesSubscribe, wire.MethodResourcesUnsub:
		l.result(m, `{}`)
	}
}

// A call and a subscription keep a session, however long they take.
func TestUsedSessionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, subscribes, func(o *Options) { o.SessionIdle, o.Timeout = time.Minute, time.Hour })
		ann := by("ann", `{}`, &peer{})
		ann.Session, _ = h.Session(t.Context(), ann)
		cancel, err := h.Subscribe(t.Context(), ann, "x:a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		h.s.life(2).line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a"}}`)
		synctest.Wait()
		if diff := cmp.Diff([]string{`ann: notifications/resources/updated{"uri":"x:a"}`}, h.watch.noted()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if slices.Contains(h.s.life(1).methods(), wire.MethodResourcesSubscribe) {
			t.Error("the subscription went through the session of everybody")
		}
		cancel()
		cancel()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !isOver(h.s.life(2)) {
			t.Error("the session has not ended")
		}
	})
}

// What a server says in a client's session is that client's.
func TestNotificationsOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), nil)
		h.call(t.Context(), by("ann", `{}`, &peer{}))
		h.call(t.Context(), byModern("carl"))
		for n := 1; n <= 3; n++ {
			h.s.life(n).line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, n)
			h.s.life(n).line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
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

// A client's process that dies is started again by the next call, and that is no
// matter of the upstream as a whole.
func TestSessionComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := connector.NewMetrics()
		h := keep(t, counts(), func(o *Options) { o.Metrics = metrics })
		ann := by("ann", `{}`, &peer{})
		h.call(t.Context(), ann)
		h.s.life(2).quit()
		synctest.Wait()
		if up := metric(t, metrics, "mcp_gateway_upstream_up"); up != 1 || h.Snapshot().State != connector.Ready {
			t.Errorf("the upstream is up: %v, %s", up, h.Snapshot().State)
		}
		if got := h.call(t.Context(), ann); got != `"life 3, call 1"` {
			t.Errorf("after the restart: %s", got)
		}
		if got := declared(h.s.life(3), t); got != `{}` {
			t.Errorf("declared %s after the restart", got)
		}
		h.EndClient("ann")
		synctest.Wait()
		if metric(t, metrics, "mcp_gateway_upstream_up") != 1 {
			t.Error("the end of a client's session took the metrics of the upstream away")
		}
	})
}
