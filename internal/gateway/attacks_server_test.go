package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// askingServer is an upstream of both eras, at /legacy and /modern. Its tool "ask" asks for
// an elicitation and returns the action of the answer. Its tool "job" begins a task.
type askingServer struct {
	mu      sync.Mutex
	answers map[string]chan string // the answers of a legacy client, by the id of the question
	asked   int
}

func newAskingServer(t *testing.T) string {
	s := &askingServer{answers: make(map[string]chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /legacy", s.legacy)
	mux.HandleFunc("POST /modern", s.modern)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// wireMessage has the members of a message that the server reads.
type wireMessage struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name, Level    string
		RequestState   string
		InputResponses map[string]struct{ Action string }
	}
	Result struct{ Action string }
}

const (
	askTools = `"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"plain","inputSchema":{"type":"object"}}]`
	question = `{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}`
	taskBody = `"taskId":"native","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"`
)

func said(action string) string {
	return fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, action)
}

func (s *askingServer) legacy(w http.ResponseWriter, r *http.Request) {
	var m wireMessage
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := `{}`
	switch {
	case m.Method == "":
		s.mu.Lock()
		answer := s.answers[string(m.ID)]
		s.mu.Unlock()
		answer <- m.Result.Action
		fallthrough
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}`
	case m.Method == "tools/list":
		result = `{` + askTools + `}`
	case m.Params.Name == "job":
		result = `{"task":{` + taskBody + `,"ttl":60000}}`
	case m.Method == "tasks/get":
		result = `{` + taskBody + `,"ttl":60000}`
	case m.Params.Name == "plain":
		result = `{` + said("done") + `}`
	case m.Params.Name == "ask":
		s.mu.Lock()
		s.asked++
		id := fmt.Sprint(s.asked)
		answer := make(chan string, 1)
		s.answers[id] = answer
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"elicitation/create\",\"params\":%s}\n\n", id, question)
		w.(http.Flusher).Flush()
		select {
		case action := <-answer:
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{%s}}\n\n", m.ID, said(action))
		case <-r.Context().Done():
		}
		return
	}
	reply(w, m.ID, result)
}

func (s *askingServer) modern(w http.ResponseWriter, r *http.Request) {
	var m wireMessage
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := `{"resultType":"complete"}`
	switch {
	case m.Method == "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",` +
			`"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	case m.Method == "tools/list":
		result = `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + askTools + `}`
	case m.Method == "tasks/get":
		result = `{"resultType":"complete",` + taskBody + `,"ttlMs":60000}`
	case m.Params.Name == "plain":
		result = `{"resultType":"complete",` + said("done") + `}`
	case m.Params.Name == "job":
		result = `{"resultType":"task",` + taskBody + `,"ttlMs":60000}`
	case m.Params.Name == "ask" && m.Params.RequestState == "its own":
		result = `{"resultType":"complete",` + said(m.Params.InputResponses["k"].Action) + `}`
	case m.Params.Name == "ask":
		result = `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":` + question + `}},"requestState":"its own"}`
	}
	reply(w, m.ID, result)
}

func reply(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}
