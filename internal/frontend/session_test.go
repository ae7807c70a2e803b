package frontend

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

func testSession(id string) *session {
	levels := &levelCount{report: func(wire.Level) {}}
	return newSession(call.Anonymous, &call.Client{Key: id, Revision: wire.LatestLegacy}, levels, stream.NewMemoryLog(fairshare.New(1<<40, 0), 0))
}

// The first answer to a question counts, it outlives the body that it came in,
// and a second one waits for nobody.
func TestSecondAnswerIsDropped(t *testing.T) {
	s := testSession("s")
	id, answers := s.ask()
	body := []byte(`{"action":"accept"}`)
	s.answered(&wire.Message{ID: id, Result: body})
	clear(body)
	s.answered(&wire.Message{ID: id, Result: wire.Raw(`{"action":"decline"}`)})
	if got := <-answers; string(got.Result) != `{"action":"accept"}` {
		t.Errorf("the answer is %q", got.Result)
	}
	if len(answers) != 0 {
		t.Error("there was a second answer")
	}
}

// A table that is full makes room when a session has expired, even when the
// clock of Run has not come by yet.
func TestFullTableExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table sessionTable
		table.init(1, time.Minute, prometheus.NewGauge(prometheus.GaugeOpts{Name: "sessions"}), func(string) {})
		if first := counted("first", 1); table.add(first) != nil || found(&table, "first") != first {
			t.Fatal("an empty table has no room")
		}
		if table.add(counted("second", 2)) != errTooManySessions || table.add(counted("second", 1)) != errGreedySessions {
			t.Error("a session in use was thrown out, or who wants another is told something else")
		}
		time.Sleep(time.Minute + 1)
		if table.add(counted("third", 2)) != nil {
			t.Error("an expired session was not thrown out")
		}
		if found(&table, "first") != nil {
			t.Error("an expired session is still there")
		}
	})
}

// counted is a session of an owner that counts among those that there may be.
func counted(id string, o fairshare.Share) *session {
	s := testSession(id)
	s.counts, s.share = true, o
	return s
}

// One client cannot have all sessions, and whoever comes later still finds some.
func TestNobodyHasAllSessions(t *testing.T) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sessions"})
	var table sessionTable
	table.init(100, time.Hour, gauge, func(string) {})
	have := map[fairshare.Share][]*session{}
	for _, o := range []fairshare.Share{1, 2, 3} {
		for {
			s := counted(fmt.Sprintf("%d-%d", o, len(have[o])), o)
			why := table.add(s)
			if why == nil {
				have[o] = append(have[o], s)
				continue
			}
			if want := map[fairshare.Share]*wire.Error{1: errGreedySessions}[o]; want != nil && why != want {
				t.Errorf("client %d is told %v, want %v", o, why, want)
			}
			break
		}
	}
	if len(have[1]) != 50 || len(have[2]) != 25 || len(have[3]) != 13 {
		t.Errorf("of 100 sessions the first client has %d, the second %d, the third %d", len(have[1]), len(have[2]), len(have[3]))
	}
	if err := table.reserve(4); err != nil { // an HTTP+SSE stream that has no session yet
		t.Error(err)
	}
	if got := testutil.ToFloat64(gauge); got != 50+25+13+1 {
		t.Errorf("the gauge is %v", got)
	}
	table.release(4)
	for _, sessions := range have {
		for _, s := range sessions {
			table.remove(s, errSessionEnded)
		}
	}
	if got := testutil.ToFloat64(gauge); got != 0 || table.placed != 0 || len(table.shares) != 0 {
		t.Errorf("left: gauge %v, %d places, shares %v", got, table.placed, table.shares)
	}
}

// found returns the session of that name if there is one.
func found(t *sessionTable, id string) *session {
	s, _ := t.get(id, call.Anonymous) // nil is all that has to be known
	return s
}

// sinkFunc is a sink.
type sinkFunc func(msg []byte) bool

func (f sinkFunc) Send(msg []byte) bool { return f(msg) }

// A call that is over says nothing more, even where its outlet still would
// carry it, as in a batch.
func TestNotifyAfterTheEnd(t *testing.T) {
	s := New(Options{Handler: newScript(), Info: wire.Raw(`{}`)})
	sent := 0
	x := s.newExchange(t.Context(), sinkFunc(func([]byte) bool { sent++; return true }), wire.IDOf("1"))
	defer x.cancel(nil)
	x.call.Client = &call.Client{Revision: wire.LatestLegacy}
	x.call.Method = wire.MethodToolsList
	x.Notify(wire.NoteProgress, wire.Raw(`{}`))
	x.run()
	x.call.Back.Notify(wire.NoteProgress, wire.Raw(`{}`))
	if sent != 1 {
		t.Errorf("%d notifications were sent, want the one before the end", sent)
	}
}

// keeper keeps the clients that it saw.
type keeper struct{ clients []*call.Client }

func (k *keeper) Handle(_ context.Context, c *call.Call) (call.Result, error) {
	k.clients = append(k.clients, c.Client)
	return own(`{"content":[]}`)
}

// What a modern client said of itself outlives the request, whose body is used
// again for others.
func TestClientOutlivesRequest(t *testing.T) {
	k := &keeper{}
	s := New(Options{Handler: k, Info: wire.Raw(`{}`)})
	names := []string{"aaaa", "bbbb", "cccc", "dddd"}
	for _, name := range names {
		r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood","_meta":{`+
			`"io.modelcontextprotocol/clientCapabilities":{"`+name+`":{}},"io.modelcontextprotocol/clientInfo":{"name":"`+name+`"},`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, wire.EraModern)
		if w := do(s, r); w.Code != 200 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	for i, name := range names {
		c := k.clients[i]
		if string(c.Info) != `{"name":"`+name+`"}` || string(c.Capabilities) != `{"`+name+`":{}}` {
			t.Errorf("client %d is %s with %s, want %s", i, c.Info, c.Capabilities, name)
		}
	}
}

// A session that ends between being found and being used is one that is not
// there: the client begins anew.
func TestSessionEndsUnderRequest(t *testing.T) {
	s := testSession("s")
	s.end(errSessionEnded)
	x := &exchange{sess: s, id: wire.IDOf("1")}
	if err := x.begin(); err != errSessionEnded {
		t.Errorf("begin: %v, want %v", err, errSessionEnded)
	}
	if _, err := s.attach(nil, nil); err != errSessionEnded {
		t.Errorf("attach: %v, want %v", err, errSessionEnded)
	}
}

// An answer that cannot be read is one: whoever waits for it hears so, and not only
// the client.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScript(), Info: wire.Raw(`{}`)})
		w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`)))
		h := &host{t, s, w.Header().Get(wire.HeaderSession)}
		call := h.begin(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}`, "")
		synctest.Wait()
		began := time.Now()
		for _, session := range []string{"x", h.session} {
			r := request(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","action":"decline"}}`))
			r.Header.Set(wire.HeaderSession, session)
			if w := do(s, r); w.Code != http.StatusBadRequest {
				t.Errorf("session %q: status %d, %s", session, w.Code, w.Body)
			}
			synctest.Wait()
			if call.ended() != (session == h.session) {
				t.Errorf("after an answer in session %q the call has ended: %t", session, call.ended())
			}
		}
		if !call.ended() {
			s.Stop()
		}
		<-call.done
		if got := call.written(); !strings.Contains(got, "the client's answer cannot be read") || time.Since(began) > 0 {
			t.Errorf("the call ended with %s", got)
		}
	})
}

// Who asks for sessions again and again does not have all of them looked at each time.
func TestRefusalsDoNotLookAtAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table sessionTable
		table.init(1, time.Minute, prometheus.NewGauge(prometheus.GaugeOpts{Name: "sessions"}), func(string) {})
		if err := table.add(counted("first", 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, want := range []*wire.Error{errTooManySessions, errTooManySessions, nil} { // expired after a minute and a bit
			if err := table.add(counted("next", 2)); err != want {
				t.Errorf("got %v, want %v", err, want)
			}
			time.Sleep(lookAgain / 2)
		}
	})
}
