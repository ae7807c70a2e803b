package credentials

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"testing"

	"mcpgateway/internal/gatewaytest"
)

// serve starts a server on loopback, and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// protected starts a server that requires tokens of an authorization server, and returns
// the URL of its endpoint.
func protected(t *testing.T, as *gatewaytest.AuthServer) string {
	t.Helper()
	var self string
	self = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp":
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+self+`/its-metadata", scope="read"`)
			w.WriteHeader(http.StatusUnauthorized)
		case "/its-metadata":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"resource":"` + self + `/mcp","authorization_servers":["` + as.URL + `"],"scopes_supported":["all"]}`))
		default:
			http.NotFound(w, r)
		}
	})
	return self + "/mcp"
}

// browser returns a client that follows redirects and has its own cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: tr}
}

// open opens a URL, and returns the status and the text of the final page.
func open(t *testing.T, b *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := b.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// step opens a URL, and returns the URL that it redirects to.
func step(t *testing.T, b *http.Client, url string) string {
	t.Helper()
	one := *b
	one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := one.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s leads nowhere: %d %s", url, resp.StatusCode, text)
	}
	return to.String()
}
