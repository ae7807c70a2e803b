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
	"mcpgateway/internal/wire"
)

// rootful asks for roots as server-filesystem does: first of all, and when it is
// told that they have changed.
func rootful() func(*fakeLife, wire.Message) {
	var mu sync.Mutex
	asks := 0
	return legacy(func(l *fakeLife, m wire.Message) {
		switch m.Method {
		case wire.NoteInitialized, wire.NoteRootsChanged:
			mu.Lock()
			asks++
			n := asks
			mu.Unlock()
			if strings.Contains(string(wire.ValueOf(l.methodParams(wire.MethodInitialize)).Get("capabilities", "roots").Raw()), "{") {
				l.line(`{"jsonrpc":"2.0","id":"roots-%d","method":"roots/list"}`, n)
			}
		case wire.MethodToolsCall:
			l.result(m, fmt.Sprintf(`{"said":%q}`, l.roots()))
		}
	})
}

func (l *fakeLife) methodParams(name string) wire.Raw {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got {
		if m.Method == name {
			return m.Params
		}
	}
	return nil
}

// roots returns the last answer to roots/list.
func (l *fakeLife) roots() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := "none"
	for _, m := range l.got {
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
		h := keep(t, rootful(), func(o *Options) { o.Roots = []protocol.Root{{URI: "file:///configured"}} })
		h.people.away = true // then they are asked in the call that opens the session
		roots := func(uri string) *peer {
			return &peer{ask: func(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
				return wire.Raw(`{"roots":[{"uri":"` + uri + `"}]}`), nil
			}}
		}
		ann, bob := by("ann", `{"roots":{}}`, roots("file:///a")), by("bob", `{"roots":{}}`, roots("file:///b"))
		for _, tt := range []struct {
			c    *call.Call
			want string
		}{ // the first call waits until the server knows them
			{ann, `file:///a`}, {bob, `file:///b`}, {by("eve", `{}`, &peer{}), `none`}, {ann, `file:///a`},
		} {
			if got := h.call(t.Context(), tt.c); !strings.Contains(got, tt.want) {
				t.Errorf("%s: the server knows the roots %s, want %s", tt.c.Client.Key, got, tt.want)
			}
		}
		h.people.away = false
		h.RootsChanged(ann.Client, ann.Principal.Key()) // between calls
		synctest.Wait()
		if diff := cmp.Diff([]string{"ann: roots/list"}, h.people.were()); diff != "" {
			t.Errorf("asked between calls (-want +got):\n%s", diff)
		}
		if got := h.call(t.Context(), ann); !strings.Contains(got, "file:///ann") {
			t.Errorf("after a change the server knows the roots %s", got)
		}
	})
}

// The session of a principal asks the one of its clients that has roots.
func TestRootsOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, rootful(), func(o *Options) { o.Sharing = PerPrincipal })
		plain, rooted := by("plain", `{}`, &peer{}), by("rooted", `{"roots":{}}`, &peer{})
		if got := h.call(t.Context(), plain); !strings.Contains(got, "-32601") {
			t.Errorf("a client without roots: the server knows %s", got)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		h.call(cancelled, rooted) // it has only to be there
		synctest.Wait()
		if got := h.call(t.Context(), plain); !strings.Contains(got, "file:///rooted") {
			t.Errorf("after a client with roots came: the server knows %s", got)
		}
		h.EndClient("rooted")
		h.RootsChanged(rooted.Client, "nobody")
		if got := h.people.were(); len(got) != 1 {
			t.Errorf("asked %q", got)
		}
	})
}

// A session is not opened before the call that it is for is on its way through it:
// however long that takes, the server finds somebody to ask for roots.
func TestRootsOfDawdlingCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, rootful(), nil)
		h.people.away = true
		ann := by("ann", `{"roots":{}}`, &peer{ask: func(context.Context, string, wire.Raw) (wire.Raw, error) {
			return wire.Raw(`{"roots":[{"uri":"file:///a"}]}`), nil
		}})
		if _, err := h.Session(t.Context(), ann); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := h.call(t.Context(), ann); !strings.Contains(got, "file:///a") {
			t.Errorf("the server knows the roots %s", got)
		}
		if _, err := h.Session(t.Context(), by("bob", `{}`, &peer{})); err != nil {
			t.Fatal(err)
		}
		h.EndClient("bob") // before anybody needed the session
	})
}

// A client with roots that comes while the server waits for those of a principal is
// told of as one that comes later.
func TestRootsComeWhileAsked(t *testing.T) {
	p := &sessionScope{origin: Origin{Principal: "ann"}, rootsAnswered: make(chan struct{}, 1)}
	told := 0
	p.announceRoots = func() { told++ }
	if c := p.askRecipient(wire.MethodRootsList, nil); c != nil {
		t.Fatalf("%v is asked", c)
	}
	defer p.addCall(by("rooted", `{"roots":{}}`, &peer{}))()
	p.answered(wire.MethodRootsList)
	if told != 1 {
		t.Errorf("the server was told %d times that the roots have changed", told)
	}
}

// Without any call a question in a client's session is that client's, in a
// principal's it is nobody's.
func TestAsksBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := keep(t, counts(), nil)
		h.call(t.Context(), by("ann", `{"elicitation":{}}`, &peer{}))
		h.call(t.Context(), byModern("carl"))
		for n := 1; n <= 3; n++ {
			h.s.life(n).line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
			h.s.life(n).wait(t, response(`"q"`))
		}
		if diff := cmp.Diff([]string{"ann: elicitation/create"}, h.people.were()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
