package frontend

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// start sends a message of ann in a session, and returns what writes the response.
func (r *replica) start(session, body string) *recorder {
	req := request(r.t, strings.NewReader(body))
	req.Header.Set("X-Api-Key", "ann")
	req.Header.Set(wire.HeaderSession, session)
	w := &recorder{header: make(http.Header), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		r.ServeHTTP(w, req)
	}()
	synctest.Wait()
	return w
}

func withScript(o *Options) { o.Handler = newScriptHandler() }

var openAsking = initializeWith(wire.Rev20250618, `,"capabilities":{"elicitation":{},"roots":{"listChanged":true}}`)

const askBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}}`

// askOn returns the id of the ask on a stream.
func askOn(t *testing.T, w *recorder) wire.ID {
	t.Helper()
	for _, e := range eventsOf(t, w.written()) {
		if m, err := wire.Parse(e.Data, wire.Limits{Depth: 10}); err == nil && m.IsRequest() {
			return m.ID
		}
	}
	t.Fatalf("no ask: %s", w.written())
	return wire.ID{}
}

// A client answers an ask at any replica.
func TestAnswerAtAnotherReplica(t *testing.T) {
	for name, answer := range map[string]struct{ body, want string }{
		"result":     {`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"z":1e400}}}`, `"answer":{"action":"accept","content":{"z":1e400}}`},
		"error":      {`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no","data":{"k":1}}}`, `{"code":-1,"message":"no","data":{"k":1}}`},
		"unreadable": {`{"jsonrpc":"2.0","id":%s,"result":{"a":1,"a":2}}`, `the client's answer cannot be read`},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, withScript, func(t *testing.T, c *cluster) {
				id := c.all[0].open(openAsking)
				w := c.all[0].start(id, askBody)
				c.all[1].rpc(id, wire.MethodPing, `{}`)
				c.all[1].from(http.MethodPost, "ann", fmt.Sprintf(answer.body, askOn(t, w)), wire.HeaderSession, id)
				synctest.Wait()
				if !w.ended() || !strings.Contains(w.written(), answer.want) {
					t.Errorf("ended %t: %s", w.ended(), w.written())
				}
			})
		})
	}
}

// Only the principal that was asked answers, in the same session and profile; both replicas check it.
func TestForeignAnswers(t *testing.T) {
	inCluster(t, 2, withScript, func(t *testing.T, c *cluster) {
		a, b := c.all[0], c.all[1]
		id, other := a.open(openAsking), b.open(openAsking)
		w := a.start(id, askBody)
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, askOn(t, w))
		if w := b.from(http.MethodPost, "bob", answer, wire.HeaderSession, id); w.Code != http.StatusNotFound {
			t.Errorf("another principal: %d", w.Code)
		}
		if w := b.from(http.MethodPost, "ann", answer, wire.HeaderSession, id, "X-Profile", "coding"); w.Code != http.StatusNotFound {
			t.Errorf("another profile: %d", w.Code)
		}
		b.from(http.MethodPost, "ann", answer, wire.HeaderSession, other)
		ann := &call.Principal{Subject: "ann", AuthMethod: "api-key"}
		for _, msg := range []sessionMessage{
			{Session: id, Owner: ownerOf(&call.Principal{Subject: "bob", AuthMethod: "api-key"}), Message: wire.Raw(answer)},
			{Session: id, Owner: ownerOf(ann.In("coding")), Message: wire.Raw(answer)},
			{Session: id, Message: wire.Raw(answer)},
			{Session: "never-was", Owner: ownerOf(ann), Message: wire.Raw(answer)},
			{Session: id, Owner: ownerOf(ann), Message: wire.Raw(`{`)},
			{Session: id, Owner: ownerOf(ann), Message: wire.Raw(listBody)},
		} {
			if _, err := a.handleAnswer(t.Context(), encode(msg), nil); err == nil {
				t.Errorf("%s %s was accepted", msg.Session, msg.Message)
			}
			a.heardFromClient(encode(msg))
		}
		for _, note := range []string{"", "{", "7", `{"session":7}`} {
			a.heardFromClient([]byte(note))
			a.heardForClient([]byte(note))
		}
		synctest.Wait()
		if w.ended() {
			t.Fatalf("the ask was answered: %s", w.written())
		}
		b.from(http.MethodPost, "ann", answer, wire.HeaderSession, id)
		synctest.Wait()
		if !w.ended() {
			t.Errorf("the client's own answer: %s", w.written())
		}
	})
}

// Answers that belong nowhere cost one request at most, and are accepted like any other.
func TestAnswersForNobody(t *testing.T) {
	inCluster(t, 2, withScript, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openAsking)
		for answer, calls := range map[string]int64{`1`: 0, `"1"`: 0, `"x.y"`: 0, `".1"`: 0, `"R0.1"`: 0, `"R1.1"`: 1, `"R7.1"`: 1, `"` + strings.Repeat("R", 100) + `.1"`: 0} {
			c.calls.Store(0)
			w := c.all[0].from(http.MethodPost, "ann", `{"jsonrpc":"2.0","id":`+answer+`,"result":{}}`, wire.HeaderSession, id)
			if w.Code != http.StatusAccepted || c.calls.Load() != calls {
				t.Errorf("%s: %d, %d requests", answer, w.Code, c.calls.Load())
			}
		}
	})
}

// A client cancels a call at any replica.
func TestCancelledAtAnotherReplica(t *testing.T) {
	inCluster(t, 3, withScript, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openAsking)
		w := c.all[1].start(id, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait","arguments":{"for":"x"}}}`)
		cancel := func(who string) {
			c.all[2].from(http.MethodPost, who, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, wire.HeaderSession, id)
			synctest.Wait()
		}
		if cancel("bob"); w.ended() {
			t.Error("another principal has cancelled the call")
		}
		if cancel("ann"); !w.ended() {
			t.Error("the call still runs")
		}
	})
}

// Every replica that has the session hears of changed roots.
func TestRootsChangedEverywhere(t *testing.T) {
	heard := make(map[string]int)
	n := 0
	inCluster(t, 3, func(o *Options) {
		name := fmt.Sprint("R", n)
		n++
		o.Events.RootsChanged = func(*call.Client, string) { heard[name]++ }
	}, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openAsking)
		c.all[1].from(http.MethodPost, "ann", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, wire.HeaderSession, id)
		synctest.Wait()
		if heard["R0"] != 1 || heard["R1"] != 1 || heard["R2"] != 0 {
			t.Errorf("heard: %v", heard)
		}
	})
}

// A notification for a client is sent once, wherever its upstream is heard.
func TestNotificationForAStreamElsewhere(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openAsking)
		w := c.all[1].stream(id, "")
		for _, r := range c.all {
			r.Notify(Audience{Client: id}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"e"}`))
		}
		synctest.Wait()
		if got := strings.Count(w.written(), wire.NoteElicitComplete); got != 3 {
			t.Errorf("%d notifications: %s", got, w.written())
		}
	})
}
