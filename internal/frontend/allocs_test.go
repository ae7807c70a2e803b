//go:build !race

// The race detector makes sync.Pool drop values at random, which changes the number of
// allocations.

package frontend

import (
	"bytes"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/sessionstore"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// callAllocs bounds the allocations of one call in the front end. Raise a number only if
// the cost is a decision.
var callAllocs = map[wire.Era]float64{wire.EraLegacy: 11, wire.EraModern: 12}

// TestPageAllocations holds a large page of a list to the allocations of a small result, and
// two for the share of the client in unread answers.
func TestPageAllocations(t *testing.T) {
	page := listPage(1000)
	for era, most := range callAllocs {
		t.Run(era.String(), func(t *testing.T) {
			run, w := oneRequest(t, era, wire.MethodToolsList, page)
			run()
			if got := wire.ValueOf(wire.Raw(w.body)).Get("result").Raw(); string(got) != string(page.Raw) {
				t.Errorf("body %.200s", w.body)
			}
			if w.status != http.StatusOK || w.header.Get("Content-Length") != strconv.Itoa(len(page.Raw)+len(`{"jsonrpc":"2.0","id":1,"result":}`)) {
				t.Errorf("status %d, header %v", w.status, w.header)
			}
			if got := testing.AllocsPerRun(100, run); got > most+2 {
				t.Errorf("a page allocates %v times, at most %v are allowed", got, most+2)
			}
		})
	}
}

// A large result is written from where it was read: a call allocates no memory that grows
// with it.
func TestLargeResultIsNotCopied(t *testing.T) {
	const most = 64 << 10
	for _, upstream := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
		for _, era := range []wire.Era{wire.EraLegacy, wire.EraModern} {
			t.Run(string(upstream)+" for "+era.String(), func(t *testing.T) {
				result := wire.Raw(`{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)
				run, w := oneRequest(t, era, wire.MethodToolsCall, call.Result{Raw: result, Revision: upstream})
				if got := allocatedBy(run); got > most {
					t.Errorf("a call allocates %d bytes, at most %d are allowed", got, most)
				}
				if text := wire.ValueOf(wire.Raw(w.body)).Get("result", "content"); w.status != http.StatusOK || len(text.Raw()) < 1<<20 {
					t.Errorf("status %d, body %.200s", w.status, w.body)
				}
			})
		}
	}
}

func TestCallAllocations(t *testing.T) {
	for era, most := range callAllocs {
		t.Run(era.String(), func(t *testing.T) {
			run, w := oneCall(t, era)
			if got := testing.AllocsPerRun(200, run); got > most {
				t.Errorf("a call allocates %v times, at most %v are allowed", got, most)
			}
			if w.status != http.StatusOK || !bytes.HasPrefix(w.body, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content"`)) {
				t.Errorf("status %d, body %.80s", w.status, w.body)
			}
		})
	}
}

// A call in a profile allocates as much as one in the default profile.
func TestCallsInProfilesAllocateNoMore(t *testing.T) {
	ann := &call.Principal{Subject: "ann", AuthMethod: "api-key"}
	for _, era := range []wire.Era{wire.EraLegacy, wire.EraModern} {
		for _, who := range []*call.Principal{call.Anonymous, ann} {
			cost := func(who *call.Principal) float64 {
				run, w := sameRequest{era: era, method: wire.MethodToolsCall, result: call.Result{Raw: wire.Raw(`{"content":[]}`)}, sender: who}.repeat(t)
				defer func() {
					if w.status != http.StatusOK {
						t.Errorf("status %d, body %.80s", w.status, w.body)
					}
				}()
				return testing.AllocsPerRun(200, run)
			}
			if plain, inProfile := cost(who), cost(who.In("coding")); inProfile > plain {
				t.Errorf("%s, %s: %v allocations in a profile, %v without", era, who.Subject, inProfile, plain)
			}
		}
	}
}

// A call in a session with a sealed id allocates as much as one in another session: the id is
// opened once, when the session is adopted.
func TestCallsInSealedSessionsAllocateNoMore(t *testing.T) {
	result := call.Result{Raw: wire.Raw(`{"content":[]}`)}
	run, w := sameRequest{era: wire.EraLegacy, method: wire.MethodToolsCall, result: result, keys: [][]byte{sealKey(1)}}.repeat(t)
	if got, most := testing.AllocsPerRun(200, run), callAllocs[wire.EraLegacy]; got > most {
		t.Errorf("a call allocates %v times, at most %v are allowed", got, most)
	}
	if w.status != http.StatusOK {
		t.Errorf("status %d, body %.80s", w.status, w.body)
	}
}

// allocatedBy returns the bytes that a call of run allocates.
func allocatedBy(run func()) uint64 {
	const calls = 20
	run()
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		run()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / calls
}

// A large request is read into memory once. A modern one is copied once more, without its
// metadata.
func TestLargeRequestIsReadOnce(t *testing.T) {
	const size, room = 1 << 20, 64 << 10
	for era, most := range map[wire.Era]uint64{wire.EraLegacy: size + room, wire.EraModern: 2*size + room} {
		run, w := sameRequest{era: era, method: wire.MethodToolsCall, result: call.Result{Raw: wire.Raw(`{"content":[]}`)}, text: strings.Repeat("x", size)}.repeat(t)
		if got := allocatedBy(run); got > most {
			t.Errorf("%s: a request of %d bytes allocates %d bytes, at most %d are allowed", era, size, got, most)
		}
		if w.status != http.StatusOK {
			t.Errorf("%s: status %d, %.200s", era, w.status, w.body)
		}
	}
}

// Opening a session allocates no buffer for the request.
func TestInitializeReusesItsBody(t *testing.T) {
	const most = 6 << 10
	s := New(Options{Handler: constantHandler{call.Result{Raw: wire.Raw(`{"capabilities":{}}`)}}, Info: wire.Raw(`{"name":"gateway","version":"1"}`)})
	body := []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	w := &discard{header: make(http.Header)}
	got := allocatedBy(func() {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "127.0.0.1:34567"
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r)
	})
	if got > most {
		t.Errorf("initialize allocates %d bytes, at most %d are allowed", got, most)
	}
	if w.status != http.StatusOK {
		t.Errorf("status %d, %.200s", w.status, w.body)
	}
}

// A large result in an event is written from where it was read too. A session keeps one copy
// of it, for a client whose connection breaks. A result of several lines has to be divided.
func TestLargeEventIsNotCopied(t *testing.T) {
	const size, room = 1 << 20, 64 << 10
	content := `[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]`
	for space, bounds := range map[string]map[wire.Era]uint64{
		"":   {wire.EraLegacy: size + room, wire.EraModern: room},
		"\n": {wire.EraLegacy: 3*size + room, wire.EraModern: 3*size + room},
	} {
		for era, most := range bounds {
			result := call.Result{Raw: wire.Raw(`{"content":` + space + content + `}`)}
			run, w := sameRequest{era: era, method: wire.MethodToolsCall, result: result, accept: "text/event-stream"}.repeat(t)
			if got := allocatedBy(run); got > most {
				t.Errorf("%q, %s: an event of %d bytes allocates %d bytes, at most %d are allowed", space, era, size, got, most)
			}
			events := eventsOf(t, string(w.body))
			last := wire.Raw(events[len(events)-1].Data)
			if got := wire.ValueOf(last).Get("result", "content").Raw(); string(got) != content {
				t.Errorf("%q, %s: %.200s", space, era, w.body)
			}
		}
	}
}

// A response goes to a writer that takes pieces in one piece of work: the brace after a large
// result does not become a packet of its own.
func TestPiecesAreWrittenTogether(t *testing.T) {
	for size, most := range map[int]int{10: 1, 64 << 10: 1, 1 << 20: 5} {
		result := wire.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`)
		s := New(Options{Handler: constantHandler{call.Result{Raw: result}}, Info: wire.Raw(`{"name":"gateway","version":"1"}`)})
		w := &vectorWriter{discard: discard{header: make(http.Header)}}
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(w, r)
		if want := `{"jsonrpc":"2.0","id":1,"result":` + string(result) + "}"; w.all.String() != want {
			t.Errorf("%d: %.200s", size, w.all.String())
		}
		if w.writes > most {
			t.Errorf("%d: %d writes, at most %d are allowed", size, w.writes, most)
		}
	}
}

// vectorWriter takes the pieces of an answer together, as those of http1server do.
type vectorWriter struct {
	discard
	all    bytes.Buffer
	writes int
}

func (w *vectorWriter) Write(b []byte) (int, error) { return len(b), w.WritePieces(b) }

func (w *vectorWriter) WritePieces(pieces ...[]byte) error {
	w.writes++
	for _, b := range pieces {
		w.all.Write(b)
	}
	return nil
}

// With a store, a call in a session that the replica has allocates as without one.
func TestCallsInSharedSessionsAllocateNoMore(t *testing.T) {
	cost := func(change func(*Options)) float64 {
		r := newReplica(t, func(o *Options) {
			o.Handler = constantHandler{call.Result{Raw: wire.Raw(`{"content":[]}`)}}
			change(o)
		}, 1)
		id := r.open(openLegacy)
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
		w := &discard{header: make(http.Header)}
		return testing.AllocsPerRun(200, func() {
			req := request(t, bytes.NewReader(body))
			req.Header.Set("X-Api-Key", "ann")
			req.Header.Set(wire.HeaderSession, id)
			r.ServeHTTP(w, req)
		})
	}
	alone := cost(func(*Options) {})
	shared := cost(func(o *Options) {
		kept := new(storetest.Memory)
		o.Sessions.Shared = sessionstore.NewStates(kept, time.Hour, nil)
		o.Sessions.Copies = sessionstore.NewEvents(kept, time.Hour, 1<<30)
		o.Sessions.Replicas = clusterPeers{}
	})
	if shared > alone {
		t.Errorf("a call allocates %v times with a store, %v without", shared, alone)
	}
}
