package frontend

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// sinkFunc is a sink.
type sinkFunc func(msg []byte) bool

func (f sinkFunc) Send(msg []byte) bool { return f(msg) }

// A call that has ended sends nothing, even if its sink is still open, as in a batch.
func TestNotifyAfterTheEnd(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	sent := 0
	x := s.newExchange(t.Context(), sinkFunc(func([]byte) bool { sent++; return true }), sender{principal: call.Anonymous}, wire.IDOf("1"))
	defer x.Cancel(nil)
	x.call.Client = &call.Client{Revision: wire.LatestLegacy}
	x.call.Method = wire.MethodToolsList
	x.Notify(wire.NoteProgress, wire.Raw(`{}`))
	x.run()
	x.call.Back.Notify(wire.NoteProgress, wire.Raw(`{}`))
	if sent != 1 {
		t.Errorf("%d notifications were sent, want the one before the end", sent)
	}
}

// clientRecorder records the clients of its calls.
type clientRecorder struct{ clients []*call.Client }

func (k *clientRecorder) Handle(_ context.Context, c *call.Call) (call.Result, error) {
	k.clients = append(k.clients, c.Client)
	return own(`{"content":[]}`)
}

// The description of a modern client outlives its request, whose buffer is reused.
func TestClientOutlivesRequest(t *testing.T) {
	k := &clientRecorder{}
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

// An answer that cannot be read ends the ask with an error, in addition to the error for
// the client.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
		w := do(s, request(t, strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}}`)))
		h := &sessionClient{t: t, s: s, session: w.Header().Get(wire.HeaderSession)}
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
