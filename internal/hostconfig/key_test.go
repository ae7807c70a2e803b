package hostconfig

import (
	"fmt"
	"testing"
)

// An entry with a key is the one without it, and the header where the host looks for it.
func TestSnippetWithKey(t *testing.T) {
	const url = "https://mcp.example.com/mcp?a=<b>"
	for _, h := range Hosts() {
		if !h.TakesURL() {
			continue
		}
		text, err := h.SnippetWithKey("gateway", url)
		if err != nil {
			t.Fatal(err)
		}
		d, err := h.parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", h.Name, err, text)
		}
		servers, _ := d.whole()[h.Key].(map[string]any)
		got, _ := servers["gateway"].(map[string]any)
		want := h.decoded(Entry{URL: url})
		header := "headers"
		if h.toml {
			header = "http_headers"
		}
		want[header] = map[string]any{"Authorization": "Bearer KEY"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v:\n%s", h.Name, got, want, text)
		}
	}
}
