package frontend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	sharedstore "mcpgateway/internal/store"
	"mcpgateway/internal/wire"
)

// resumeAt sends a GET of who with the id of the last event, and returns what writes the response.
func (r *replica) resumeAt(who, session, lastEvent string, headers ...string) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	req := request(r.t, nil).WithContext(ctx)
	req.Method = http.MethodGet
	req.Header.Set("X-Api-Key", who)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(wire.HeaderSession, session)
	if lastEvent != "" {
		req.Header.Set(wire.HeaderLastEvent, lastEvent)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := &recorder{header: make(http.Header), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(w.done)
		r.ServeHTTP(w, req)
	}()
	synctest.Wait()
	return w
}

// kill makes a replica unreachable for the others, and its clients.
func (c *cluster) kill(i int, connections ...*recorder) {
	synctest.Wait() // what is written to the store is there
	c.gone[i] = true
	for _, w := range connections {
		w.cancel()
	}
	synctest.Wait()
}

// Connections break at random places, and each request reaches another replica. Still each call gets its
// notifications once and in order, and then its answer.
func TestRandomDisconnectsAmongReplicas(t *testing.T) {
	for seed := range uint64(20) {
		inCluster(t, 3, func(o *Options) { o.Handler = countingHandler{} }, func(t *testing.T, c *cluster) {
			h := newSessionClient(t, c.all[0].Server)
			var wg sync.WaitGroup
			for id := range 4 {
				random := rand.New(rand.NewPCG(seed, uint64(id)))
				var mu sync.Mutex
				own := &sessionClient{t: t, session: h.session, pick: func() *Server {
					mu.Lock()
					defer mu.Unlock()
					return c.all[random.IntN(len(c.all))].Server
				}}
				wg.Go(func() { own.followThrough(id, rand.New(rand.NewPCG(seed, uint64(id+100)))) })
			}
			wg.Wait()
		})
	}
}

// The stream of a session moves from replica to replica. Its client misses no event and gets none twice,
// although connections lose what was on its way.
func TestStreamMovesAmongReplicas(t *testing.T) {
	for seed := range uint64(30) {
		inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
			random := rand.New(rand.NewPCG(seed, 0))
			id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
			sent, got, last := 0, []string(nil), ""
			for range 40 {
				r := c.all[random.IntN(len(c.all))]
				w := r.resumeAt("ann", id, last)
				if w.code() != http.StatusOK {
					t.Fatalf("seed %d: resuming from %q: %d %s", seed, last, w.code(), w.written())
				}
				for range random.IntN(4) {
					r.Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(fmt.Sprintf(`{"elicitationId":"%d"}`, sent)))
					sent++
				}
				synctest.Wait()
				body := w.written()
				w.cancel()
				<-w.done
				if last != "" || random.IntN(2) == 0 {
					body = body[:random.IntN(len(body)+1)]
				}
				for _, e := range eventsOf(t, body) {
					last = e.ID
					if m, err := wire.Parse(e.Data, wire.Limits{}); err == nil && m.Method == wire.NoteElicitComplete {
						got = append(got, wire.ValueOf(m.Params).Get("elicitationId").Str())
					}
				}
				if last == "" {
					sent, got = 0, nil // no id has arrived: the client begins anew
				}
			}
			w := c.all[0].resumeAt("ann", id, last)
			for _, e := range eventsOf(t, w.written()) {
				if m, err := wire.Parse(e.Data, wire.Limits{}); err == nil && m.Method == wire.NoteElicitComplete {
					got = append(got, wire.ValueOf(m.Params).Get("elicitationId").Str())
				}
			}
			want := make([]string, sent)
			for i := range want {
				want[i] = fmt.Sprint(i)
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: got %q, want %d", seed, got, sent)
			}
		})
	}
}

// Notifications that wait for a stream at one replica go with the stream.
func TestPendingNotificationsMove(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		c.all[1].rpc(id, wire.MethodToolsList, `{}`)
		first := c.all[0].resumeAt("ann", id, "")
		last := eventsOf(t, first.written())[0].ID
		first.cancel()
		<-first.done
		c.all[0].ListChanged(false, true, false)
		w := c.all[1].resumeAt("ann", id, last)
		if got := strings.Count(w.written(), "list_changed"); got != 1 || !strings.Contains(w.written(), wire.NotePromptsChanged) {
			t.Errorf("%s", w.written())
		}
	})
}

// A reply that is lost on its way to the other replica loses no event.
func TestLostReplies(t *testing.T) {
	inCluster(t, 2, func(o *Options) { o.Handler = countingHandler{} }, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		calls := c.all[0].start(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":2}}}`)
		first := c.all[0].resumeAt("ann", id, "")
		c.all[0].Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"e"}`))
		time.Sleep(time.Second)
		for _, tc := range []struct{ event, want string }{
			{eventsOf(t, calls.written())[0].ID, `"result"`}, {eventsOf(t, first.written())[0].ID, `"e"`},
		} {
			c.lose.Store(1)
			if w := c.all[1].resumeAt("ann", id, tc.event); w.code() != http.StatusOK || strings.Count(w.written(), tc.want) != 1 || strings.Contains(w.written(), wire.NoteToolsChanged) {
				t.Errorf("%s: %d %s", tc.want, w.code(), w.written())
			}
		}
	})
}

// A stream without events has no copy, wherever it goes, and one with events has them all: those without data
// between them are not missed.
func TestSilentStreamsHaveNoCopies(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		asked, last := int64(0), ""
		for i := range 6 {
			w := c.all[i%2].resumeAt("ann", id, last)
			last = eventsOf(t, w.written())[0].ID
			w.cancel()
			<-w.done
			w = c.all[i%2].resumeAt("ann", id, last) // primes again
			w.cancel()
			<-w.done
			if i == 1 {
				asked = c.kept.asked.Load()
			}
		}
		if n := c.kept.asked.Load() - asked; n != 0 {
			t.Errorf("a silent stream asks the store %d times", n)
		}
		w := c.all[0].resumeAt("ann", id, last)
		send := func(text string) (event string) {
			c.all[0].Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(fmt.Sprintf(`{"elicitationId":%q}`, text)))
			synctest.Wait()
			events := eventsOf(t, w.written())
			w.cancel()
			<-w.done
			return events[len(events)-1].ID
		}
		one := send("one")
		w = c.all[0].resumeAt("ann", id, one) // primes: an event without data follows
		send("two")
		c.kill(0)
		if w := c.all[2].resumeAt("ann", id, one); w.code() != http.StatusOK || strings.Count(w.written(), `"two"`) != 1 || strings.Contains(w.written(), `"one"`) {
			t.Errorf("%d %s", w.code(), w.written())
		}
	})
}

// The holder ends its connection when the stream moves.
func TestMovedStreamEndsItsConnection(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		first := c.all[0].resumeAt("ann", id, "")
		second := c.all[1].resumeAt("ann", id, eventsOf(t, first.written())[0].ID)
		if !first.ended() || second.ended() || second.code() != http.StatusOK {
			t.Errorf("the old connection has ended: %t, the new one: %t, %d", first.ended(), second.ended(), second.code())
		}
	})
}

// messagesOf returns the messages of events, in short.
func messagesOf(t *testing.T, body string) (out []string) {
	t.Helper()
	for _, e := range eventsOf(t, body) {
		m, err := wire.Parse(e.Data, wire.Limits{Depth: 10})
		switch {
		case len(e.Data) == 0:
		case err != nil:
			t.Errorf("%q: %v", e.Data, err)
		case m.Method == wire.NoteProgress:
			out = append(out, "progress "+string(wire.ValueOf(m.Params).Get("progress").Raw()))
		case m.Method != "":
			out = append(out, m.Method)
		case m.Error != nil:
			out = append(out, fmt.Sprintf("%s: %d retryable %s", m.ID, m.Error.Code, wire.ValueOf(m.Error.Data).Get("retryable").Raw()))
		default:
			out = append(out, "result "+m.ID.String())
		}
	}
	return out
}

// progressing reports progress three times, and then waits.
type progressing struct{ countingHandler }

func (h progressing) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	if res, err := h.countingHandler.Handle(ctx, c); err != nil || c.Method == wire.MethodDiscover || !wire.ValueOf(c.Params).Get("arguments", "hang").Bool() {
		return res, err
	}
	<-ctx.Done()
	return call.Result{}, ctx.Err()
}

// The replica of a call ends. Its client gets the events that it has missed, and then an error that says
// that it may try again; the answer, if that was there.
func TestCallWhoseReplicaHasEnded(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		inCluster(t, 3, func(o *Options) { o.Handler = progressing{} }, func(t *testing.T, c *cluster) {
			id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
			first := c.all[0].start(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"n":3,"hang":%t}}}`, hangs))
			time.Sleep(time.Second)
			events := eventsOf(t, first.written())
			c.kill(0)
			want := []string{"progress 1", "progress 2", `result "a"`}
			if hangs {
				want[2] = `"a": -32603 retryable false`
			}
			for range 2 { // the client asks again
				w := c.all[1].resumeAt("ann", id, events[1].ID)
				if got := messagesOf(t, w.written()); !w.ended() || w.code() != http.StatusOK || !slices.Equal(got, want) {
					t.Errorf("hangs %t: %d, %q, want %q", hangs, w.code(), got, want)
				}
			}
			lastEvent := events[len(events)-1].ID
			w := c.all[2].resumeAt("ann", id, lastEvent)
			if hangs && !slices.Equal(messagesOf(t, w.written()), want[2:]) || !hangs && w.code() != http.StatusNoContent {
				t.Errorf("hangs %t, from the last event: %d, %s", hangs, w.code(), w.written())
			}
		})
	}
}

// An event of a call that was not sent yet is refused at every replica, and nobody says that the call's replica has ended while it lives. The client
// can still resume from the last event that it got.
func TestEventThatWasNotSent(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		inCluster(t, 2, func(o *Options) { o.Handler = progressing{} }, func(t *testing.T, c *cluster) {
			id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
			first := c.all[0].start(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"n":3,"hang":%t}}}`, hangs))
			time.Sleep(time.Second)
			events := eventsOf(t, first.written())
			last := events[len(events)-1].ID
			for i, r := range c.all {
				if w := r.resumeAt("ann", id, last+"9"); w.code() != http.StatusBadRequest {
					t.Errorf("hangs %t, replica %d: %d, %s", hangs, i, w.code(), w.written())
				}
			}
			want := http.StatusOK
			if !hangs {
				want = http.StatusNoContent
			}
			if w := c.all[1].resumeAt("ann", id, last); w.code() != want {
				t.Errorf("hangs %t, from the last event: %d, %s", hangs, w.code(), w.written())
			}
		})
	}
}

// Every request of a batch gets an error when its replica has ended.
func TestBatchWhoseReplicaHasEnded(t *testing.T) {
	inCluster(t, 2, func(o *Options) { o.Handler = progressing{} }, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20250326, `,"capabilities":{}`))
		const one = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"n":1,"hang":true}}}`
		w := c.all[0].start(id, "["+fmt.Sprintf(one, 1)+","+fmt.Sprintf(one, 2)+"]")
		time.Sleep(time.Second)
		events := eventsOf(t, w.written())
		c.kill(0)
		rest := c.all[1].resumeAt("ann", id, events[0].ID)
		if got, want := messagesOf(t, rest.written()), []string{"progress 0", "1: -32603 retryable false", "2: -32603 retryable false"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// The replica of a stream ends. The client gets what it has missed, and learns that there may be more. A
// second resumption from the same event goes on where the first one has.
func TestStreamWhoseReplicaHasEnded(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		c.all[1].subscribe(id, "x:1")
		first := c.all[0].resumeAt("ann", id, "")
		for i := range 3 {
			c.all[0].Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(fmt.Sprintf(`{"elicitationId":"%d"}`, i)))
		}
		synctest.Wait()
		events := eventsOf(t, first.written())
		c.kill(0, first)
		second := c.all[1].resumeAt("ann", id, events[1].ID)
		want := messagesOf(t, first.written())[1:]
		got := messagesOf(t, second.written())
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) || !slices.Contains(got, wire.NoteToolsChanged) || !slices.Equal(updatesOn(t, second), []string{"x:1"}) {
			t.Errorf("%q, want %q, then all lists and updates", got, want)
		}
		c.all[1].Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"new"}`))
		third := c.all[2].resumeAt("ann", id, events[1].ID)
		if got := messagesOf(t, third.written()); len(got) <= len(want) || !slices.Equal(got[:len(want)], want) || strings.Count(third.written(), `"new"`) != 1 || !second.ended() {
			t.Errorf("then %q", got)
		}
	})
}

// The replica that a stream has moved to ends before it has told anybody: the replica before has the
// events still.
func TestStreamMovedToALostReplica(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		first := c.all[0].resumeAt("ann", id, "")
		c.all[0].Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"e"}`))
		synctest.Wait()
		last := eventsOf(t, first.written())[0].ID
		p, err := stream.ParseEventID(last)
		if err != nil {
			t.Fatal(err)
		}
		sess := c.all[0].sessions.Find(id)
		q := resumption{Session: id, Owner: ownerOf(sess.Principal), After: p, To: "LOST.R1"}
		if _, err := c.all[0].handleMove(t.Context(), encode(q), func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		c.kill(1)
		for _, r := range []*replica{c.all[2], c.all[0]} {
			if w := r.resumeAt("ann", id, last); w.code() != http.StatusOK || strings.Count(w.written(), wire.NoteElicitComplete) != 1 {
				t.Errorf("%d %s", w.code(), w.written())
			}
		}
	})
}

// Without the store, the stream of a call cannot be resumed elsewhere for now; any other begins anew.
func TestResumptionWithoutTheStore(t *testing.T) {
	inCluster(t, 2, func(o *Options) { o.Handler = progressing{} }, func(t *testing.T, c *cluster) {
		id := c.all[0].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		call := c.all[0].start(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1,"hang":true}}}`)
		time.Sleep(time.Second)
		first := c.all[0].resumeAt("ann", id, "")
		c.kept.away.Store(true)
		if w := c.all[1].resumeAt("ann", id, eventsOf(t, call.written())[0].ID); w.code() != http.StatusServiceUnavailable || w.header.Get("Retry-After") == "" {
			t.Errorf("a call: %d %s", w.code(), w.written())
		}
		if w := c.all[1].resumeAt("ann", id, eventsOf(t, first.written())[0].ID); w.code() != http.StatusOK || !strings.Contains(w.written(), wire.NoteToolsChanged) {
			t.Errorf("a stream: %d %s", w.code(), w.written())
		}
		c.kept.away.Store(false)
		if w := c.all[1].resumeAt("ann", id, eventsOf(t, call.written())[0].ID); w.code() != http.StatusOK {
			t.Errorf("a call, later: %d %s", w.code(), w.written())
		}
	})
}

// Events of another principal, profile or session are those of nobody, at every replica, whether or not the
// replica that has them has ended.
func TestForeignEventsAtAnotherReplica(t *testing.T) {
	inCluster(t, 2, func(o *Options) { o.Handler = countingHandler{} }, func(t *testing.T, c *cluster) {
		body := initializeWith(wire.Rev20251125, `,"capabilities":{}`)
		id := c.all[0].open(body)
		calls := c.all[0].start(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":3}}}`)
		streams := c.all[0].resumeAt("ann", id, "")
		c.all[0].Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"secret"}`))
		time.Sleep(time.Second)
		ofCall, ofStream := eventsOf(t, calls.written())[0].ID, eventsOf(t, streams.written())[0].ID
		bobs := c.all[1].from(http.MethodPost, "bob", body).Header().Get(wire.HeaderSession)
		other := c.all[1].open(body)
		coding := c.all[1].open(body, "X-Profile", "coding")
		for _, dead := range []bool{false, true} {
			if dead {
				c.kill(0)
			}
			for _, tc := range []struct{ who, session, profile string }{{"bob", bobs, ""}, {"ann", other, ""}, {"ann", coding, "coding"}, {"bob", id, ""}, {"ann", id, "coding"}} {
				for _, event := range []string{ofCall, ofStream} {
					w := c.all[1].resumeAt(tc.who, tc.session, event, "X-Profile", tc.profile)
					if strings.Contains(w.written(), "progress") || strings.Contains(w.written(), "secret") {
						t.Errorf("%s of %q got %s", tc.who, tc.profile, w.written())
					}
					if event == ofCall && w.code() == http.StatusOK {
						t.Errorf("%s of %q resumed a foreign call", tc.who, tc.profile)
					}
					w.cancel()
					<-w.done
				}
			}
		}
	})
}

// A replica trusts others only for the principal that they name.
func TestForgedResumptions(t *testing.T) {
	inCluster(t, 1, nil, func(t *testing.T, c *cluster) {
		a := c.all[0]
		id := a.open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		w := a.resumeAt("ann", id, "")
		p, err := stream.ParseEventID(eventsOf(t, w.written())[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		ann := &call.Principal{Subject: "ann", AuthMethod: "api-key"}
		for _, q := range []resumption{
			{Session: id, After: p, To: "X.R1"},
			{Session: id, Owner: ownerOf(ann.In("coding")), After: p, To: "X.R1"},
			{Session: "never-was", Owner: ownerOf(ann), After: p, To: "X.R1"},
			{Session: id, Owner: ownerOf(ann), After: stream.Position{Stream: "X.R0", Number: 1}, To: "X.R1"},
			{Session: id, Owner: ownerOf(ann), After: stream.Position{Stream: p.Stream, Number: -1}, To: "X.R1"},
			{Session: id, Owner: ownerOf(ann), After: stream.Position{Stream: p.Stream, Number: 99}, To: "X.R1"},
		} {
			for _, kind := range []string{requestResume, requestMove} {
				reply, err := a.Requests()[kind](t.Context(), encode(q), func([]byte) error { t.Errorf("%s: %+v got a message", kind, q); return nil })
				if err != nil || !strings.Contains(string(reply), `"unknown":true`) {
					t.Errorf("%s: %+v: %s, %v", kind, q, reply, err)
				}
			}
		}
		for kind, handle := range a.Requests() {
			if _, err := handle(t.Context(), []byte("{"), nil); err == nil {
				t.Errorf("%s accepts what is no JSON", kind)
			}
		}
		if w.ended() {
			t.Error("the stream has ended")
		}
	})
}

// A text that somebody has written to the store is not taken for a copy.
func TestPoisonedCopies(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[1].open(initializeWith(wire.Rev20251125, `,"capabilities":{}`))
		for _, name := range []string{"S.R7", "S.R7c"} {
			for _, entry := range []string{"", "\x01", "\x02\x00\x05\x00\x00x", "\x01\x07\x05\x00\x00x", "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00x", "\x01\x00\x05\x7f"} {
				if err := c.kept.Memory.Append(t.Context(), sharedstore.Key{Kind: "events", Name: id + " " + name}, 10, time.Hour, []byte(entry)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if w := c.all[1].resumeAt("ann", id, "S.R7c-4"); w.code() != http.StatusBadRequest {
			t.Errorf("a call: %d %s", w.code(), w.written())
		}
		if w := c.all[1].resumeAt("ann", id, "S.R7-4"); w.code() != http.StatusOK || strings.Contains(w.written(), "data: x") {
			t.Errorf("a stream: %d %s", w.code(), w.written())
		}
		if w := c.all[1].resumeAt("ann", id, strings.Repeat("S", 4000)+".R7-4"); w.code() != http.StatusBadRequest {
			t.Errorf("a long id: %d", w.code())
		}
	})
}
