package upstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// asksForRoots asks for roots after the handshake and after each change, as
// server-filesystem does.
func asksForRoots() func(*upstreamtest.Instance, wire.Message) {
	var mu sync.Mutex
	asks := 0
	return upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
		switch m.Method {
		case wire.NoteInitialized, wire.NoteRootsChanged:
			mu.Lock()
			asks++
			n := asks
			mu.Unlock()
			if strings.Contains(string(wire.ValueOf(paramsOf(l, wire.MethodInitialize)).Get("capabilities", "roots").Raw()), "{") {
				l.Line(`{"jsonrpc":"2.0","id":"roots-%d","method":"roots/list"}`, n)
			}
		case wire.MethodToolsCall:
			l.Result(m, fmt.Sprintf(`{"said":%q}`, lastRoots(l)))
		}
	})
}

// paramsOf returns the parameters of the first message with this method.
func paramsOf(l *upstreamtest.Instance, method string) wire.Raw {
	for _, m := range l.Received() {
		if m.Method == method {
			return m.Params
		}
	}
	return nil
}

// lastRoots returns the last answer to roots/list.
func lastRoots(l *upstreamtest.Instance) string {
	last := "none"
	for _, m := range l.Received() {
		switch {
		case m.IsResponse() && m.Error != nil:
			last = fmt.Sprint(m.Error.Code)
		case m.IsResponse():
			last = string(wire.ValueOf(m.Result).Get("roots").Raw())
		}
	}
	return last
}

func TestRootsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, asksForRoots(), func(o *Options) { o.Roots = []protocol.Root{{URI: "file:///configured"}} })
		h.clients.away = true // clients can be asked only during calls
		roots := func(uri string) *upstreamtest.Peer {
			return &upstreamtest.Peer{OnAsk: func(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
				return wire.Raw(`{"roots":[{"uri":"` + uri + `"}]}`), nil
			}}
		}
		ann, bob := legacyCall("ann", `{"roots":{}}`, roots("file:///a")), legacyCall("bob", `{"roots":{}}`, roots("file:///b"))
		for _, tt := range []struct {
			c    *call.Call
			want string
		}{ // the first call waits until the server has the roots
			{ann, `file:///a`}, {bob, `file:///b`}, {legacyCall("eve", `{}`, &upstreamtest.Peer{}), `none`}, {ann, `file:///a`},
		} {
			if got := h.call(t.Context(), tt.c); !strings.Contains(got, tt.want) {
				t.Errorf("%s: the server has the roots %s, want %s", tt.c.Client.Key, got, tt.want)
			}
		}
		h.clients.away = false
		h.RootsChanged(ann.Client, ann.Principal.Key()) // between calls
		synctest.Wait()
		if diff := cmp.Diff([]string{"ann: roots/list"}, h.clients.requests()); diff != "" {
			t.Errorf("asks between calls (-want +got):\n%s", diff)
		}
		if got := h.call(t.Context(), ann); !strings.Contains(got, "file:///ann") {
			t.Errorf("after a change the server has the roots %s", got)
		}
	})
}

// The session of a principal asks the client that has roots.
func TestRootsOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, asksForRoots(), func(o *Options) { o.Sharing = PerPrincipal })
		undeclared := &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
			return nil, wire.Errorf(wire.CodeMethodNotFound, "the client did not declare roots")
		}}
		plain, rooted := legacyCall("plain", `{}`, undeclared), legacyCall("rooted", `{"roots":{}}`, &upstreamtest.Peer{})
		if got := h.call(t.Context(), plain); !strings.Contains(got, "-32601") {
			t.Errorf("client without roots: the server has %s", got)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		h.call(cancelled, rooted) // the call only registers the client
		synctest.Wait()
		if got := h.call(t.Context(), plain); !strings.Contains(got, "file:///rooted") {
			t.Errorf("after a call of a client with roots: the server has %s", got)
		}
		h.EndClient("rooted")
		h.RootsChanged(rooted.Client, "nobody")
		if got := h.clients.requests(); len(got) != 1 {
			t.Errorf("asked %q", got)
		}
	})
}

// A session opens only once its call is sent through it. The server can therefore
// always ask that call's client for roots.
func TestSessionOpensWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, asksForRoots(), nil)
		h.clients.away = true
		ann := legacyCall("ann", `{"roots":{}}`, &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
			return wire.Raw(`{"roots":[{"uri":"file:///a"}]}`), nil
		}})
		if _, err := h.Session(t.Context(), ann); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := h.call(t.Context(), ann); !strings.Contains(got, "file:///a") {
			t.Errorf("the server has the roots %s", got)
		}
		if _, err := h.Session(t.Context(), legacyCall("bob", `{}`, &upstreamtest.Peer{})); err != nil {
			t.Fatal(err)
		}
		h.EndClient("bob") // before the session opens
	})
}

// The server is notified of a client with roots that arrives while the server waits
// for the roots of a principal.
func TestRootsArriveDuringRootsList(t *testing.T) {
	p := &sessionScope{origin: Origin{Principal: "ann"}, rootsAnswered: make(chan struct{}, 1)}
	announced := 0
	p.announceRoots = func() { announced++ }
	if c := p.askRecipient(wire.MethodRootsList, nil); c != nil {
		t.Fatalf("%v is asked", c)
	}
	defer p.addCall(legacyCall("rooted", `{"roots":{}}`, &upstreamtest.Peer{}))()
	p.answered(wire.MethodRootsList)
	if announced != 1 {
		t.Errorf("the server got %d notifications of changed roots", announced)
	}
}

// An ask between calls belongs to the client in a client's session. It belongs to no
// client in a principal's session.
func TestAsksBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, countCalls(), nil)
		h.call(t.Context(), legacyCall("ann", `{"elicitation":{}}`, &upstreamtest.Peer{}))
		h.call(t.Context(), modernCallBy("carl"))
		for n := 1; n <= 3; n++ {
			h.s.Instance(n).Line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
			h.s.Instance(n).Wait(t, upstreamtest.Response(`"q"`))
		}
		if diff := cmp.Diff([]string{"ann: elicitation/create"}, h.clients.requests()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
