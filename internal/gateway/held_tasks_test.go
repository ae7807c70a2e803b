package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// knowingServer is a legacy server with sessions that knows the tasks of all of them, or only those of each.
func knowingServer(t *testing.T, all bool) (url string) {
	t.Helper()
	var mu sync.Mutex
	sessions, owner := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		session := r.Header.Get("Mcp-Session-Id")
		switch m.Method {
		case "initialize":
			sessions++
			w.Header().Set("Mcp-Session-Id", strings.Repeat("s", sessions))
			reply(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}},"serverInfo":{"name":"s","version":"1"}}`)
		case "tools/list":
			reply(w, m.ID, `{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`)
		case "tools/call":
			owner = session
			reply(w, m.ID, `{"task":{"taskId":"n1","status":"working","ttl":600000}}`)
		default:
			if !all && session != owner {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32602,"message":"no such task here"}}`))
				return
			}
			reply(w, m.ID, `{"taskId":"n1","status":"working"}`)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// A task in a session that clients share is asked for at the replica where it began. When that has ended, or cannot be reached, the server
// is asked; an error says whether the task may still be there.
func TestTaskOfAnotherReplica(t *testing.T) {
	for name, all := range map[string]bool{"the server knows all tasks": true, "the server knows those of a session": false} {
		t.Run(name, func(t *testing.T) {
			kept := &deadStore{Store: new(storetest.Memory)}
			replicas, ends := startReplicasOn(t, 2, false, `upstreams: {jobs: {url: "`+knowingServer(t, all)+`"}}`, kept)
			for _, g := range replicas {
				polltest.Until(t, "the upstream is connected, and the replicas see each other", func() bool {
					return len(g.waitingFor(reasonForAll)) == 0 && len(g.sharing.replicas.Others()) == 1
				})
			}
			resp, _ := post(t, replicas[0], "", initialize)
			session := resp.Header.Get("Mcp-Session-Id")
			_, created := post(t, replicas[0], session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"jobs__job","arguments":{},"task":{}}}`)
			var task struct {
				Result struct{ Task struct{ TaskID string } }
			}
			if err := json.Unmarshal([]byte(created), &task); err != nil || task.Result.Task.TaskID == "" {
				t.Fatalf("%s, %v", created, err)
			}
			get := func() string {
				_, text := post(t, replicas[1], session, `{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"`+task.Result.Task.TaskID+`"}}`)
				return text
			}
			has := func(when, without string) {
				t.Helper()
				want := `"status":"working"`
				if !all && without != "" {
					want = without
				}
				if got := get(); !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", when, got, want)
				}
			}
			has("while the other replica lives", "")
			kept.dead.Store(true)
			polltest.Until(t, "the replica notices it", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := replicas[1].sharing.replicas.Call(ctx, replicas[0].replica, "none", nil, nil)
				return errors.Is(err, store.ErrUnavailable)
			})
			has("while the store is away", `"retryable":true`)
			kept.dead.Store(false)
			ends[0]()
			polltest.Until(t, "the replica is seen as ended", func() bool { return len(replicas[1].sharing.replicas.Others()) == 0 })
			has("after the other replica has ended", "no such task here")
		})
	}
}
