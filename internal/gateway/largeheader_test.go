package gateway

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/requestid"
)

// A request with a too large header has an id, one line of the log and a place in the metric.
func TestLargeHeader(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	g, _ := startLogged(t, "auth: {mode: none, insecure: true}\n"+aDisabledUpstream, false, zap.New(core))
	c, err := net.Dial("tcp", g.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nX-A: %s\r\n\r\n", g.Addr(), strings.Repeat("x", 70_000)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	id := resp.Header.Get(requestid.Header)
	if resp.StatusCode != 431 || !requestid.Valid(id) || !resp.Close {
		t.Errorf("%s, id %q, close %t", resp.Status, id, resp.Close)
	}
	lines := logs.FilterField(zap.String("request", id)).FilterMessage("request refused").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	fields := lines[0].ContextMap()
	if fields["kind"] != "size" || fields["status"] != int64(431) || fields["http_method"] != "POST" || fields["remote"] != c.LocalAddr().String() || fields["reason"] == "" {
		t.Errorf("the line has %v", fields)
	}
	if got := gauge(t, g, `mcp_gateway_refused_requests_total{reason="size"}`); got != "1" {
		t.Errorf("%s requests are counted", got)
	}
}

// A client of HTTP/2 with a large header learns that it is too large.
func TestLargeHeaderOverHTTP2(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	dir := t.TempDir()
	ca := gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	g, _ := startLogged(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}\nauth: {mode: none, insecure: true}\n", dir)+aDisabledUpstream, false, zap.New(core))
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+g.Addr()+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-A", strings.Repeat("~", 120_000)) // HPACK does not make it smaller
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	id := resp.Header.Get(requestid.Header)
	if n := logs.FilterField(zap.String("request", id)).FilterMessage("request refused").Len(); resp.ProtoMajor != 2 || resp.StatusCode != 431 || !requestid.Valid(id) || n != 1 {
		t.Errorf("%s %s, id %q, %d lines", resp.Proto, resp.Status, id, n)
	}
	if got := gauge(t, g, `mcp_gateway_refused_requests_total{reason="size"}`); got != "1" {
		t.Errorf("%s requests are counted", got)
	}
}
