package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// openPage opens a path as a browser does.
func openPage(t *testing.T, g *Gateway, path, host string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if host != "" {
		r.Host = host
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// A browser that opens the address of MCP gets a page, with the URL by which it came. Clients
// get what they got before.
func TestPageForBrowsers(t *testing.T) {
	g, _ := start(t, "", true)
	for _, path := range []string{"/", pathMCP} {
		res, text := openPage(t, g, path, "")
		if res.StatusCode != http.StatusOK || !strings.Contains(text, "http://"+g.Addr()+pathMCP) || !strings.Contains(text, "Cursor") {
			t.Errorf("%s: %s %s", path, res.Status, text)
		}
		if res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %v", path, res.Header)
		}
		if strings.Contains(text, "cafe") || strings.Contains(text, "notes") {
			t.Errorf("%s names an upstream", path)
		}
		if res, text := openPage(t, g, path, "page.example"); res.StatusCode != http.StatusForbidden || strings.Contains(text, "page.example") {
			t.Errorf("%s for a host that is not served: %s %s", path, res.Status, text)
		}
	}
	if res, text := openPage(t, g, "/other", ""); res.StatusCode != http.StatusNotFound || strings.Contains(text, "<html") {
		t.Errorf("another path: %s %s", res.Status, text)
	}
	res, err := http.Get("http://" + g.Addr() + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("without Accept: %s", res.Status)
	}
}

// The page needs no credentials. It shows the public URL, and how to send credentials.
func TestPageWithAuthentication(t *testing.T) {
	g, _ := start(t, `public_url: https://mcp.example.com/base
auth: {mode: api-key, api_keys: [{id: ci, sha256: 2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683}]}
upstreams: {secretname: {command: cat, disabled: true}}
`, false)
	res, text := openPage(t, g, pathMCP, "")
	if res.StatusCode != http.StatusOK || !strings.Contains(text, "https://mcp.example.com/base/mcp") || !strings.Contains(text, "Bearer KEY") {
		t.Errorf("%s %s", res.Status, text)
	}
	if strings.Contains(text, g.Addr()) || strings.Contains(text, "secretname") || strings.Contains(text, "ci") && strings.Contains(text, "2c70") {
		t.Errorf("the page says too much: %s", text)
	}
}
