package origin

import (
	"net/http"
	"testing"
)

// X-Forwarded headers count only from trusted proxies.
func TestTrustedProxies(t *testing.T) {
	for _, tc := range []struct {
		name, from string
		headers    []string
		want       string // address, host and scheme
	}{
		{"stranger", "198.51.100.1:9", []string{"X-Forwarded-For", "1.1.1.1", "X-Forwarded-Host", "evil", "X-Forwarded-Proto", "https"}, "198.51.100.1:9 gw "},
		{"proxy", "10.1.2.3:9", []string{"X-Forwarded-For", "1.1.1.1", "X-Forwarded-Host", "mcp.example.com", "X-Forwarded-Proto", "HTTPS"}, "1.1.1.1:0 mcp.example.com https"},
		{"mapped address", "[::ffff:10.1.2.3]:9", []string{"X-Forwarded-For", "1.1.1.1"}, "1.1.1.1:0 gw "},
		{"proxies in a row", "10.1.2.3:9", []string{"X-Forwarded-For", "6.6.6.6, 1.1.1.1", "X-Forwarded-For", "10.9.9.9"}, "1.1.1.1:0 gw "},
		{"only proxies", "10.1.2.3:9", []string{"X-Forwarded-For", "10.0.0.1,10.0.0.2"}, "10.0.0.1:0 gw "},
		{"nonsense", "10.1.2.3:9", []string{"X-Forwarded-For", "1.1.1.1, unknown", "X-Forwarded-Host", "a/b", "X-Forwarded-Proto", "ftp"}, "10.1.2.3:9 gw "},
		{"host appended", "10.1.2.3:9", []string{"X-Forwarded-Host", "evil", "X-Forwarded-Host", "mcp.example.com"}, "10.1.2.3:9 mcp.example.com "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			h := TrustProxies([]string{"10.0.0.0/8"}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = r.RemoteAddr + " " + r.Host + " " + r.URL.Scheme
			}))
			r, err := http.NewRequest(http.MethodPost, "/mcp", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr, r.Host = tc.from, "gw"
			for i := 0; i < len(tc.headers); i += 2 {
				r.Header.Add(tc.headers[i], tc.headers[i+1])
			}
			h.ServeHTTP(nil, r)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
