package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/raw"
)

// draftServer is a hand-written server that implements SEP-2093, in its first or in its later form. It returns the answers of the draft's
// examples.
type draftServer struct {
	era     string
	answers map[string]string // by method and URI

	mu  sync.Mutex
	got []string // methods and URIs
}

const draftChild = `{"uri":"file:///projects/src/main.ts","name":"main.ts","mimeType":"text/typescript","resourceType":"document","text":"import { app } from './app';\n..."}`

// draftFirst are the answers in the first form.
var draftFirst = map[string]string{
	"resources/list": `"resources":[{"uri":"file:///projects/src","name":"src","mimeType":"inode/directory","resourceType":"collection"},` +
		`{"uri":"file:///docs/report.pdf","name":"Quarterly Report","title":"Report","description":"D","icons":[{"src":"data:,"}],"mimeType":"application/pdf","size":1,"resourceType":"document"}]`,
	"resources/list file:///projects/src": `"resources":[{"uri":"file:///projects/src/main.ts","name":"main.ts","resourceType":"document"},{"uri":"file:///projects/src/lib","name":"lib","resourceType":"collection"}],"nextCursor":"more"`,
	"resources/read file:///projects/src": `"contents":[` + draftChild + `,{"uri":"file:///projects/src/app.ts","name":"app.ts","mimeType":"text/typescript","resourceType":"document","text":"export const app = ..."}]`,
	"resources/read file:///docs/report.pdf": `"contents":[{"uri":"file:///docs/report.pdf","name":"Quarterly Report","mimeType":"application/pdf","resourceType":"document","size":102400,"blob":"JVBERi0xLjQK"},` +
		`{"uri":"file:///docs/report.pdf","name":"Quarterly Report","mimeType":"text/plain","resourceType":"document","size":8192,"text":"Extracted text content of the PDF..."}]`,
	"resources/metadata file:///projects/src":    `"resource":{"uri":"file:///projects/src","name":"src","mimeType":"inode/directory","resourceType":"collection","annotations":{"lastModified":"2026-01-15T00:00:00Z"}}`,
	"resources/metadata file:///docs/report.pdf": `"resource":{"uri":"file:///docs/report.pdf","name":"Quarterly Report","mimeType":"application/pdf","size":102400,"x":{"a":1}}`,
	"tools/call show":                            `"content":[{"type":"resource","resource":` + draftChild + `}]`,
}

// draftLater are the answers in the later form.
var draftLater = map[string]string{
	"resources/list":                         `"resources":[{"uri":"file:///projects/src","name":"src","mimeType":"inode/directory","capabilities":{"list":true,"subscribe":false}}]`,
	"resources/list file:///projects/src":    `"resources":[{"uri":"file:///projects/src/main.ts","name":"main.ts","capabilities":{"subscribe":true}},{"uri":"file:///projects/src/lib","name":"lib","mimeType":"inode/directory","capabilities":{"list":true}}]`,
	"resources/read file:///projects/src":    `"contents":[{"uri":"file:///projects/src","name":"src","mimeType":"text/plain","capabilities":{"list":true,"subscribe":false},"text":"main.ts\nlib/"}]`,
	"resources/read file:///docs/report.pdf": `"contents":[{"uri":"file:///docs/report.pdf","name":"report","capabilities":{},"text":"T"}]`,
	"resources/metadata file:///projects/src": `"resource":{"uri":"file:///projects/src","name":"src","mimeType":"inode/directory",` +
		`"capabilities":{"list":true,"subscribe":false},"x":1}`,
	"resources/metadata file:///docs/report.pdf": `"resource":{"uri":"file:///docs/report.pdf","name":"report","capabilities":{}}`,
	"tools/call show": `"content":[{"type":"resource","resource":{"uri":"file:///projects/src","text":"","capabilities":{"list":true}}}]`,
}

func startDraft(t *testing.T, era string, answers map[string]string) (*draftServer, string) {
	s := &draftServer{era: era, answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

// requests returns the received requests with these methods.
func (s *draftServer) requests(methods string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, got := range s.got {
		if method, _, _ := strings.Cut(got, " "); strings.Contains(methods, method) {
			out = append(out, got)
		}
	}
	return out
}

func (s *draftServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := raw.Read(string(body))
	if err != nil || m.Member("id") == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.era == client.Legacy {
		w.Header().Set("Mcp-Session-Id", "draft")
	}
	member, value := "result", s.result(m)
	if value == "" {
		member, value = "error", `{"code":-32601,"message":"unknown"}`
		switch m.Method() {
		case "resources/metadata":
			value = `{"code":-32602,"message":"gone","data":{"uri":"file:///none"}}`
			if s.era == client.Legacy {
				value = `{"code":-32002,"message":"gone","data":{"uri":"file:///none"}}`
			}
		case "server/discover":
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	io.WriteString(w, `{"jsonrpc":"2.0","id":`+m.Member("id")+`,"`+member+`":`+value+`}`)
}

func (s *draftServer) result(m raw.Message) string {
	const capabilities = `"capabilities":{"tools":{},"resources":{}}`
	envelope := ""
	if s.era == client.Modern {
		envelope = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	switch method := m.Method(); {
	case method == "initialize" && s.era == client.Legacy:
		return `{"protocolVersion":"2025-11-25",` + capabilities + `,"serverInfo":{"name":"draft","version":"1"}}`
	case method == "server/discover" && s.era == client.Modern:
		return `{` + envelope + `"supportedVersions":["2026-07-28"],` + capabilities + `}`
	case method == "tools/list":
		return `{` + envelope + `"tools":[{"name":"show","inputSchema":{"type":"object"}}]}`
	case method == "resources/templates/list":
		return `{` + envelope + `"resourceTemplates":[{"uriTemplate":"file:///docs/{name}","name":"doc"}]}`
	}
	var params struct{ Name, URI string }
	if text := m.Member("params"); text != "" && json.Unmarshal([]byte(text), &params) != nil {
		return ""
	}
	asked := strings.TrimSpace(m.Method() + " " + params.Name + params.URI)
	s.mu.Lock()
	s.got = append(s.got, asked)
	s.mu.Unlock()
	if answer, ok := s.answers[asked]; ok {
		return `{` + envelope + answer + `}`
	}
	return ""
}
