package faults

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"mcpgateway/test/internal/raw"
)

// listen serves streamable HTTP. A good server is modern, the others are legacy with sessions that end with the process.
// Every connection is for one request: otherwise the number of idle connections would depend on the concurrency of the calls.
func (s *server) listen(addr string) error {
	server := http.Server{Addr: addr, Handler: s}
	server.SetKeepAlivesEnabled(false)
	return server.ListenAndServe()
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch s.mode {
	case mute:
		<-r.Context().Done()
		return
	case html:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><body>Please log in. <!-- %s --></body></html>", inside)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := raw.Read(string(body))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	modern := m.Method() == "server/discover" || r.Header.Get("Mcp-Method") != ""
	session := fmt.Sprint("session-of-", os.Getpid())
	given := r.Header.Get("Mcp-Session-Id")
	switch {
	case (s.mode == good) != modern:
		w.WriteHeader(http.StatusBadRequest)
	case !modern && m.Method() != "initialize" && given != session:
		w.WriteHeader(http.StatusNotFound)
	case m.Member("id") == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		if m.Method() == "initialize" {
			w.Header().Set("Mcp-Session-Id", session)
		}
		answer, ok := s.basic(m)
		if !ok {
			answer = s.failOver(w, r, m)
		}
		io.WriteString(w, answer)
	}
}

// failOver answers a call of a tool that fails.
func (s *server) failOver(w http.ResponseWriter, r *http.Request, m raw.Message) string {
	name, _ := called(m)
	switch name {
	case "cut":
		w.Header().Set("Content-Length", "100000")
		io.WriteString(w, result(m, text(inside))[:40])
		panic(http.ErrAbortHandler) // closes the connection
	case "cut-stream":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s", result(m, text(inside))[:40])
		panic(http.ErrAbortHandler)
	case "broken":
		return strings.TrimSuffix(result(m, text(inside)), "}") + "]"
	case "lie":
		return strings.Replace(result(m, text(inside)), `"id":`+m.Member("id"), `"id":99999999`, 1)
	case "sleep":
		<-r.Context().Done()
	}
	return ""
}
