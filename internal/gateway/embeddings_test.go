package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
)

// embeddingServer knows that caffeine and the cafe have to do with each other.
func embeddingServer(t *testing.T) (url string, sent func() string) {
	var mu sync.Mutex
	var texts []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != "Bearer t0p-s3cret-k3y" {
			t.Errorf("asked with %v, %v", r.Header, err)
		}
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, body.Input...)
		var data []string
		for i, text := range body.Input {
			v := "[0,1]"
			if strings.Contains(text, "cafe") || strings.Contains(text, "caffeine") {
				v = "[1,0]"
			}
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, v))
		}
		_, _ = io.WriteString(w, `{"data":[`+strings.Join(data, ",")+`]}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(texts, "\n")
	}
}

func TestEmbeddingsFindByMeaning(t *testing.T) {
	url, sent := embeddingServer(t)
	core, logs := observer.New(zap.DebugLevel)
	g, _ := startLogged(t, `
auth: {mode: none}
policy: {default: allow, rules: [{name: no, effect: deny, what: {tools: [cafe__order]}}]}
upstreams: {cafe: {command: x}, clock: {command: x}, notes: {command: x}}
embeddings: {url: "`+url+`", model: small, key: t0p-s3cret-k3y}
profiles:
  default: {catalog: search}
  time: {catalog: search, upstreams: [clock]}
  plain: {upstreams: [notes]}
`, true, zap.New(core))
	find := func(endpoint string) string {
		_, answer := postTo(t, g, endpoint, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_tools","arguments":{"query":"caffeine"}}}`)
		return answer
	}
	polltest.Until(t, "the tools have vectors", func() bool { return strings.Contains(find("/mcp"), `"name":"cafe__menu"`) })
	if found := find("/mcp/time"); strings.Contains(found, "cafe__") {
		t.Errorf("a profile without the cafe finds %s", found)
	}
	if found := find("/mcp"); strings.Contains(found, "cafe__order") {
		t.Errorf("a denied tool is found: %s", found)
	}
	if n := strings.Count(sent(), "Lists drinks and sizes."); n != 1 {
		t.Errorf("the tool cafe__menu was sent %d times: %s", n, sent())
	}
	for _, e := range logs.All() {
		if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, "t0p-s3cret-k3y") || strings.Contains(line, "caffeine") {
			t.Errorf("the log has the key or the query: %s", line)
		}
	}
}

// Without the server of embeddings nothing is missing.
func TestSearchGoesOnWithoutEmbeddings(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	g, _ := start(t, `
auth: {mode: none}
policy: {default: allow}
upstreams: {cafe: {command: x}, clock: {command: x}, notes: {command: x}}
embeddings: {url: "`+gone.URL+`", model: small}
profiles: {default: {catalog: search}}
`, true)
	_, found := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_tools","arguments":{"query":"menu"}}}`)
	if !strings.Contains(found, `"name":"cafe__menu"`) {
		t.Errorf("found %s", found)
	}
}
