//lint:file-ignore SA1019 roots are deprecated in 2026-07-28 and still valid

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/rig"
)

// countStreams puts a proxy before an HTTP+SSE server and counts the open streams, each of which is a session.
func countStreams(t *testing.T, server string) (at string, open *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	open = new(atomic.Int64)
	connections := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: to.Scheme, Host: to.Host}) },
		Transport:     connections,
		FlushInterval: -1,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			open.Add(1)
			defer open.Add(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		connections.CloseIdleConnections()
	})
	return srv.URL + to.Path, open
}

// TestStreamsOfClients gives each client its own stream to an HTTP+SSE server. The server's requests arrive on the client's stream. The test sees the
// streams open and close.
func TestStreamsOfClients(t *testing.T) {
	at, open := countStreams(t, rig.EverythingSSE(t))
	gateway := rig.StartOne(t, "it counts the streams that one gateway opens", rig.Config{"upstreams": rig.Upstreams{
		"sse": {"url": at, "transport": "sse", "session": "per-client", "roots": []rig.Config{{"uri": "file:///of/nobody"}}},
	}})
	count := func(want int64) {
		t.Helper()
		polltest.Until(t, fmt.Sprintf("%d streams", want), func() bool { return open.Load() == want })
	}
	count(1) // the catalog session
	ann := connectLegacy(t, gateway.URL, "ann", "elicitation", "file:///home/ann")
	bob := connectLegacy(t, gateway.URL, "bob", "elicitation", "file:///home/bob")
	everybody := []*legacyClient{ann, bob}
	count(1) // the first call opens a stream

	for n, p := range everybody {
		got := p.call(t, "sse__get-roots-list", nil)
		if other := everybody[1-n]; !strings.Contains(got, "file:///home/"+p.name) || strings.Contains(got, other.name) || strings.Contains(got, "nobody") {
			t.Errorf("the server knows these roots of %s: %s", p.name, got)
		}
		count(int64(2 + n))
	}
	var both sync.WaitGroup // only the stream shows which client a question is for
	for _, p := range everybody {
		both.Go(func() { p.expect(t, "sse__trigger-elicitation-request", nil, "- Name: "+p.name) })
	}
	both.Wait()
	for _, p := range everybody {
		if asked := p.takeRequests(); strings.Count(asked, "sse: ") != 1 {
			t.Errorf("%s was asked %q", p.name, asked)
		}
	}
	count(3)

	if err := bob.session.Close(); err != nil {
		t.Fatal(err)
	}
	count(2)
	ann.expect(t, "sse__get-roots-list", nil, "file:///home/ann")
	count(2)
	if err := ann.session.Close(); err != nil {
		t.Fatal(err)
	}
	count(1)
}
