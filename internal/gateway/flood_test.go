package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/ratelog"
)

// Log lines of the HTTP server that unauthenticated clients cause are bounded, and do not hide
// important lines.
func TestLinesOfTheHTTPServerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		log := (&Gateway{log: zap.New(core), metrics: newMetrics("test")}).errorLog()
		for i := range 1000 {
			log.Printf("http: TLS handshake error from 192.0.2.1:%d: http: panic serving\n\x1b[2J", i)
		}
		log.Print("http: Accept error: accept tcp 127.0.0.1:8080: too many open files; retrying in 1s")
		log.Print("http2: panic serving 192.0.2.1:1: nil map\nstack")
		got := map[string]int{}
		for _, e := range logs.All() {
			got[e.Level.String()+" "+e.LoggerName+" "+e.Message]++
			if e.ContextMap()["says"] == "" {
				t.Errorf("%s logs nothing", e.Message)
			}
		}
		if n := got["info http HTTP server"]; n < 1 || n > 100 || got["warn http no connections can be accepted"] != 1 || got["error http panic"] != 1 || len(got) != 3 {
			t.Errorf("the log has %v", got)
		}
	})
}

// Handshakes are cheap for a client, so the log lines about failed ones are bounded.
func TestHandshakesCannotFloodTheLog(t *testing.T) {
	const attempts = 200
	core, logs := observer.New(zap.DebugLevel)
	dir := t.TempDir()
	gatewaytest.NewAuthority(t).WriteFiles(dir)
	g, _ := startLogged(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}\n", dir)+aDisabledUpstream, false, zap.New(core))
	for range attempts {
		conn, err := net.Dial("tcp", g.Addr())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "this is no TLS\r\n")
		_, _ = io.Copy(io.Discard, conn) // until it is closed
		conn.Close()
	}
	found := func(least zapcore.Level) int {
		return logs.Filter(func(e observer.LoggedEntry) bool { return e.Message == "HTTP server" && e.Level >= least }).Len()
	}
	for end := time.Now().Add(testTimeout); found(zap.DebugLevel) < attempts && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the connection is closed before the line is written
	}
	if all, shown := found(zap.DebugLevel), found(zap.InfoLevel); all != attempts || shown < 1 || shown > attempts/2 {
		t.Errorf("%d lines, %d of them above debug", all, shown)
	}
	if n := gauge(t, g, "mcp_gateway_tls_handshake_failures_total"); n != fmt.Sprint(attempts) {
		t.Errorf("%s failed handshakes are counted", n)
	}
}

// A flood of requests without credentials does not take the line about another refusal out of the log.
func TestARefusalIsLoggedDuringAFlood(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	g, _ := startLogged(t, `auth: {mode: api-key, api_keys: [{id: ci-old, subject: ci, expires: 2020-01-01, sha256: "`+digestOf(keyOf("ci"))+`"}]}
policy: {default: allow}
`+aDisabledUpstream, false, zap.New(core))
	post := func(key string) (request string) {
		r, err := http.NewRequest(http.MethodPost, "http://"+g.Addr()+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if key != "" {
			r.Header.Set("X-API-Key", key)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Fatalf("HTTP %d", res.StatusCode)
		}
		return res.Header.Get("X-Request-Id")
	}
	for range 100 {
		post("")
	}
	for range 3 {
		id := post(keyOf("ci"))
		lines := logs.FilterMessage("authentication failed").FilterField(zap.String("request", id)).All()
		if len(lines) != 1 || lines[0].ContextMap()["key"] != "ci-old" {
			t.Errorf("the log has of the request with the expired key: %v", lines)
		}
	}
}

// A browser can open the page of a link any number of times.
func TestLogLinesOfFailedGrantsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		g := &Gateway{ratelog: ratelog.New(zap.New(core))}
		for range 1000 {
			g.grantFailed(httptest.NewRecorder(), "up", call.Anonymous, errors.New("another browser"))
		}
		if n := logs.FilterMessage("no grant was given").Len(); n < 1 || n > 100 {
			t.Errorf("%d lines", n)
		}
	})
}
