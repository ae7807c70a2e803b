package frontend

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// askOutside asks the client of a session outside of its calls, and returns what writes the answer.
func (r *replica) askOutside(ctx context.Context, id string) <-chan string {
	sess := r.sessions.Find(id)
	c := &call.Client{Key: id, Revision: wire.Rev20250618, Capabilities: wire.Raw(`{"elicitation":{}}`)}
	if sess != nil {
		c = sess.Client
	}
	got := make(chan string, 1)
	go func() {
		answer, err := r.Ask(ctx, c, wire.MethodElicit, wire.Raw(`{"message":"?","requestedSchema":{"type":"object"}}`))
		got <- fmt.Sprintf("%s %v", answer, err)
	}()
	synctest.Wait()
	return got
}

// An upstream asks outside of calls at one replica, the client has its stream at another one, and answers
// at a third.
func TestAskOutsideAtAnotherReplica(t *testing.T) {
	for name, known := range map[string]bool{"the replica knows the session": true, "the replica does not know the session": false} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, withScript, func(t *testing.T, c *cluster) {
				id := c.all[2].open(openAsking)
				if known {
					c.all[0].rpc(id, wire.MethodPing, `{}`)
				}
				w := c.all[1].stream(id, "")
				for _, tt := range []struct{ answer, want string }{
					{`"result":{"action":"accept","content":{"z":1e400}}`, `{"action":"accept","content":{"z":1e400}} <nil>`},
					{`"error":{"code":-1,"message":"no"}`, ` no (-1)`},
				} {
					before := len(w.written())
					got := c.all[0].askOutside(t.Context(), id)
					asked := lastAskOn(t, w.written()[before:])
					c.all[2].from(http.MethodPost, "ann", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, asked, tt.answer), wire.HeaderSession, id)
					if text := <-got; text != tt.want {
						t.Errorf("the upstream gets %s, want %s", text, tt.want)
					}
				}
			})
		})
	}
}

func lastAskOn(t *testing.T, written string) (id wire.ID) {
	t.Helper()
	for _, e := range eventsOf(t, written) {
		if m, err := wire.Parse(e.Data, wire.Limits{Depth: 10}); err == nil && m.IsRequest() {
			id = m.ID
		}
	}
	if id.IsZero() {
		t.Fatalf("no ask: %s", written)
	}
	return id
}

// An ask that its upstream withdraws is withdrawn at the replica of the stream. Without a stream anywhere,
// and without the store, the upstream is told at once.
func TestAskOutsideEnds(t *testing.T) {
	inCluster(t, 2, withScript, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openAsking)
		const cancelled = `{"action":"cancel"} <nil>`
		if got := <-c.all[0].askOutside(t.Context(), id); got != cancelled {
			t.Errorf("without a stream: %s", got)
		}
		w := c.all[1].stream(id, "")
		ctx, withdraw := context.WithCancel(t.Context())
		got := c.all[0].askOutside(ctx, id)
		withdraw()
		if text := <-got; !strings.Contains(text, "context canceled") {
			t.Errorf("withdrawn: %s", text)
		}
		synctest.Wait()
		if !strings.Contains(w.written(), `"method":"notifications/cancelled"`) {
			t.Errorf("the client has %s", w.written())
		}
		c.kept.away.Store(true)
		if got := <-c.all[0].askOutside(t.Context(), id); got != cancelled {
			t.Errorf("without the store: %s", got)
		}
	})
}

// Notifications outside of calls reach the client's stream at another replica, log messages from the
// level of the session on.
func TestNotifyAtAnotherReplica(t *testing.T) {
	ann := (&call.Principal{Subject: "ann", AuthMethod: "api-key"}).Key()
	for name, to := range map[string]func(id string) Audience{
		"a client":             func(id string) Audience { return Audience{Client: id} },
		"all of the principal": func(string) Audience { return Audience{Principal: ann} },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
				id := c.all[0].open(openLegacy)
				w := c.all[1].stream(id, "")
				c.all[1].rpc(id, wire.MethodSetLevel, `{"level":"error"}`)
				for _, r := range []*replica{c.all[0], c.all[2]} { // one that has the session, one that does not know it
					before := len(w.written())
					audience := to(id)
					r.Notify(audience, wire.NoteMessage, wire.Raw(`{"level":"info","data":"quiet"}`))
					r.Notify(audience, wire.NoteMessage, wire.Raw(`{"level":"error","data":"loud"}`))
					r.Notify(audience, wire.NotePromptsChanged, nil)
					r.Notify(audience, wire.NoteTaskStatus, wire.Raw(`{"taskId":"1"}`))
					synctest.Wait()
					got := w.written()[before:]
					for text, want := range map[string]int{`"quiet"`: 0, `"loud"`: 1, wire.NotePromptsChanged: 1, wire.NoteTaskStatus: 1} {
						if n := strings.Count(got, text); n != want {
							t.Errorf("%s: %d times, want %d: %s", text, n, want, got)
						}
					}
				}
			})
		})
	}
}

// An upstream that floods its client with log messages does not flood the store.
func TestFloodOfNotificationsAtAnotherReplica(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		w := c.all[1].stream(id, "")
		for range 10 * outsideRate {
			c.all[0].Notify(Audience{Client: id}, wire.NoteMessage, wire.Raw(`{"level":"error","data":"loud"}`))
		}
		c.all[0].Notify(Audience{Client: id}, wire.NoteTaskStatus, wire.Raw(`{"taskId":"1"}`))
		synctest.Wait()
		if n := strings.Count(w.written(), "loud"); n != outsideRate {
			t.Errorf("%d log messages were passed on, want %d", n, outsideRate)
		}
		if !strings.Contains(w.written(), wire.NoteTaskStatus) {
			t.Error("the status of a task was dropped")
		}
	})
}
