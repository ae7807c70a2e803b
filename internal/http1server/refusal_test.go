package http1server

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A client of HTTP/2 whose header is too large gets an answer too.
func TestLargeHeadersOverHTTP2(t *testing.T) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	next := quietServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	next.MaxHeaderBytes = 64 << 10
	next.TLSConfig = &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	s := New(next)
	s.OnLargeHeader = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Id", "id") }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(l) }()
	defer func() { s.Close(); <-ended }()
	roots := cert.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	for size, status := range map[int]int{1000: 200, 60_000: 200, 70_000: 431, 120_000: 431} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+l.Addr().String()+"/mcp", nil)
		r.Header.Set("X-A", strings.Repeat("~", size)) // which HPACK does not make smaller
		resp, err := client.Do(r)
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.Proto != "HTTP/2.0" || resp.StatusCode != status || (resp.Header.Get("X-Id") == "id") != (status != 200) {
			t.Errorf("%d bytes: %s %s %v %q", size, resp.Proto, resp.Status, resp.Header, body)
		}
	}
}
