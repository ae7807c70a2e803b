package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/raw"
)

// newest is a hand-written server that sends features of the newest revision, whatever the client's revision is.
type newest struct{ era string }

// The content of the lists.
var newestLists = map[string]string{
	"tools/list": `"tools":[
		{"name":"plain","title":"T","icons":[{"src":"data:,","sizes":["any"],"theme":"dark"}],"annotations":{"title":"A","readOnlyHint":true},"inputSchema":{"type":"object"},"_meta":{"a/b":1}},
		{"name":"list","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"type":"integer"}}},
		{"name":"number","inputSchema":{"type":"object"},"outputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"number"}},
		{"name":"either","inputSchema":{"type":"object"},"outputSchema":{"anyOf":[{"type":"object"},{"type":"null"}]}},
		{"name":"object","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"any":true,"none":false,"n":{"type":"integer"}},"required":["n"]}},
		{"name":"any","inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":{"type":"string"}}}},
		{"name":"media","inputSchema":{"type":"object"}},
		{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]`,
	"prompts/list":             `"prompts":[{"name":"media","title":"T","icons":[{"src":"data:,"}],"arguments":[{"name":"a","title":"A"}]}]`,
	"resources/list":           `"resources":[{"uri":"new:thing","name":"thing","title":"T","size":3,"icons":[{"src":"data:,"}],"annotations":{"lastModified":"2026-07-28T00:00:00Z"}}]`,
	"resources/templates/list": `"resourceTemplates":[{"uriTemplate":"new:{x}","name":"any","title":"T","icons":[{"src":"data:,"}]}]`,
}

const (
	newestAudio = `{"type":"audio","data":"UklGRiQA","mimeType":"audio/wav"}`
	newestLink  = `{"type":"resource_link","uri":"new:thing","name":"thing","title":"T","description":"D","mimeType":"text/plain","size":3,"icons":[{"src":"data:,"}]}`
)

// The results of tools, prompts and resources by name.
var newestResults = map[string]string{
	"tools/call plain":         `"content":[{"type":"text","text":"plain"}]`,
	"tools/call list":          `"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":[1,2]`,
	"tools/call number":        `"content":[],"structuredContent":17`,
	"tools/call either":        `"content":[{"type":"text","text":"nothing"}],"structuredContent":null`,
	"tools/call object":        `"content":[{"type":"text","text":"{\"n\":1,\"any\":[]}"}],"structuredContent":{"n":1,"any":[]}`,
	"tools/call any":           `"content":[{"type":"text","text":"any"}],"_meta":{"a/b":1}`,
	"tools/call media":         `"content":[` + newestAudio + `,` + newestLink + `]`,
	"tools/call task":          `"content":[{"type":"text","text":"task"}]`,
	"prompts/get media":        `"messages":[{"role":"user","content":` + newestAudio + `},{"role":"assistant","content":` + newestLink + `}]`,
	"resources/read new:thing": `"contents":[{"uri":"new:thing","mimeType":"text/plain","text":"thing","name":"thing","resourceType":"document","_meta":{"a/b":1}}]`,
}

// newestNote precedes the result of a call that asks for progress.
const newestNote = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1,"message":"half"}}`

// startNewest runs the server and returns its URL.
func startNewest(t *testing.T, era string) string {
	server := httptest.NewServer(newest{era})
	t.Cleanup(server.Close)
	return server.URL
}

func (s newest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	if s.era == client.Legacy {
		w.Header().Set("Mcp-Session-Id", "newest")
	}
	member, value := "result", s.result(m)
	if value == "" {
		member, value = "error", `{"code":-32601,"message":"unknown"}`
		if m.Method() == "server/discover" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	response := `{"jsonrpc":"2.0","id":` + m.Member("id") + `,"` + member + `":` + value + `}`
	token := progressToken(m)
	if token == "" {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, response)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: "+strings.ReplaceAll(newestNote, "TOKEN", token)+"\n\n")
	io.WriteString(w, "data: "+response+"\n\n")
}

// result returns the result for a request, "" for an unknown request.
func (s newest) result(m raw.Message) string {
	const capabilities = `"capabilities":{"tools":{},"prompts":{},"resources":{}}`
	envelope := ""
	if s.era == client.Modern {
		envelope = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	switch m.Method() {
	case "initialize":
		if s.era == client.Legacy {
			return `{"protocolVersion":"2025-11-25",` + capabilities + `,"serverInfo":{"name":"newest","version":"1"}}`
		}
	case "server/discover":
		if s.era == client.Modern {
			return `{` + envelope + `"supportedVersions":["2026-07-28"],` + capabilities + `}`
		}
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return `{` + envelope + strings.ReplaceAll(newestLists[m.Method()], "\n", "") + `}`
	default:
		var params struct{ Name, URI string }
		if json.Unmarshal([]byte(m.Member("params")), &params) != nil {
			return ""
		}
		if result, ok := newestResults[m.Method()+" "+params.Name+params.URI]; ok {
			return `{` + envelope + result + `}`
		}
	}
	return ""
}

// progressToken returns the text of the progress token of a call, "" without one.
func progressToken(m raw.Message) string {
	var params struct {
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if m.Method() != "tools/call" || json.Unmarshal([]byte(m.Member("params")), &params) != nil {
		return ""
	}
	return string(params.Meta.ProgressToken)
}
