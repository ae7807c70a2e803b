package traces

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/test/internal/rig"
)

var wellFormed = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`)

// Trace context that is malformed or too long is dropped, in headers and in _meta: the call is answered, and the upstream gets a
// context of the gateway alone.
func TestHostileTraceContext(t *testing.T) {
	c := startCollector(t)
	g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": otlp("grpc", c.grpc)})
	long := strings.Repeat("x", 10<<10)
	const good = "00-" + sampledID + "-" + parentID + "-01"
	for _, tt := range []struct {
		name, parent, state, baggage string
		continues                    bool // the trace of the client goes on
	}{
		{"malformed", "not-a-traceparent", "=,=", ";;=", false},
		{"long", long, long, long, false},
		{"long after a good parent", good, "a=" + long, "k=" + long, true},
		{"many members", good, strings.Repeat("a=1,", 2500), strings.Repeat("k=1,", 2500), true},
		{"zero ids", "00-00000000000000000000000000000000-0000000000000000-01", "a=1", "", false},
		{"version ff", "ff-" + sampledID + "-" + parentID + "-01", "", "", false},
		{"capitals", strings.ToUpper("00-" + failedID[:24] + "abcdefab-" + parentID + "-01"), "", "", false},
		{"trailing text", good + "-" + long, "", "", false},
		{"escapes", good, "no-value", "k=\u202e\u0000", true},
	} {
		for _, place := range []string{"headers", "_meta"} {
			headers, more := http.Header{}, map[string]any{}
			if place == "_meta" {
				more["_meta"] = map[string]any{"traceparent": tt.parent, "tracestate": tt.state, "baggage": tt.baggage}
			} else {
				clean := strings.NewReplacer("\u202e", "x", "\u0000", "\x01") // no client can send them in a header
				headers = http.Header{"Traceparent": {tt.parent}, "Tracestate": {tt.state}, "Baggage": {clean.Replace(tt.baggage)}}
				if strings.Contains(tt.baggage, "\u0000") {
					headers.Set("Baggage", "k=\\")
				}
			}
			result := ask(t, g.URL, "own__meta", headers, more)
			text, _ := json.Marshal(result["content"])
			var content []struct{ Text string }
			var meta map[string]any
			if err := json.Unmarshal(text, &content); err != nil || len(content) != 1 || json.Unmarshal([]byte(content[0].Text), &meta) != nil {
				t.Errorf("%s in %s: %v", tt.name, place, result)
				continue
			}
			parent, _ := meta["traceparent"].(string)
			if !wellFormed.MatchString(parent) || strings.Contains(parent, sampledID) != tt.continues {
				t.Errorf("%s in %s: the upstream got the parent %q", tt.name, place, parent)
			}
			if meta["tracestate"] != nil || meta["baggage"] != nil {
				t.Errorf("%s in %s: the upstream got %.200s", tt.name, place, content[0].Text)
			}
		}
	}
	// Members of other types and several headers of one name are no context.
	for _, more := range []map[string]any{
		{"_meta": map[string]any{"traceparent": 7, "tracestate": []int{1}, "baggage": map[string]any{"a": nil}}},
		{"_meta": map[string]any{"traceparent": nil}},
	} {
		if result := ask(t, g.URL, "own__meta", http.Header{"Traceparent": {good, good}}, more); result["content"] == nil {
			t.Errorf("%v: %v", more, result)
		}
	}
}

// A collector that is away, takes connections and says nothing, or answers garbage does nothing to calls. Each signal has one line.
func TestBadCollectors(t *testing.T) {
	serve := func(handle func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { conn.Close() })
				go handle(conn)
			}
		}()
		return "http://" + l.Addr().String()
	}
	garbage := func(c net.Conn) {
		defer c.Close()
		_, _ = io.WriteString(c, strings.Repeat("\x00\xffgarbage\r\n", 1000))
	}
	for name, endpoint := range map[string]string{
		"away":    "http://127.0.0.1:1",
		"silent":  serve(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
		"garbage": serve(garbage),
	} {
		for _, protocol := range []string{"http", "grpc"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": otlp(protocol, endpoint)})
				for range 200 {
					if result := ask(t, g.URL, "own__meta", nil, nil); result["content"] == nil {
						t.Fatalf("%v", result)
					}
				}
				stop(t, g)
				// A connection over gRPC is tried again for a while, so there may be no line yet.
				lines := strings.Count(g.Process.Output(), "telemetry cannot be exported")
				if lines > 3 || name != "silent" && protocol == "http" && lines == 0 {
					t.Errorf("%d lines", lines)
				}
				for l := range strings.Lines(g.Process.Output()) {
					if len(l) > 1500 {
						t.Errorf("a line has %d bytes: %.200s", len(l), l)
					}
				}
			})
		}
	}
}

// The headers come from the environment or from files, go to a collector with a private authority that demands a certificate, and
// are in no line of the log, also if a collector repeats them.
func TestHeadersAndTLS(t *testing.T) {
	const token = "token-of-the-collector"
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authority := gatewaytest.NewAuthority(t)
	cert, key := authority.Server()
	own509 := authority.Client(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "gateway"} })
	der, err := x509.MarshalPKCS8PrivateKey(own509.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca := write("ca.pem", authority.PEM())
	files := rig.Config{
		"ca":   ca,
		"cert": write("gateway.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own509.Certificate[0]})),
		"key":  write("gateway-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
	c := startCollector(t, write("cert.pem", cert), write("key.pem", key), ca)
	secret := write("token", []byte("Bearer "+token))
	for protocol, endpoint := range map[string]string{"grpc": c.grpc, "http": c.http} {
		for from, header := range map[string]string{"environment": "Bearer ${OTLP_TOKEN}", "file": "${file:" + secret + "}"} {
			g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": rig.Config{"log": rig.Config{"level": "debug"}, "otlp": rig.Config{
				"endpoint": endpoint, "protocol": protocol, "tls": files, "headers": rig.Config{"Authorization": header},
			}}}, "OTLP_TOKEN="+token)
			ask(t, g.URL, "own__meta", of(sampledID, "01"), nil)
			for _, signal := range []string{"span", "metric", "log"} {
				l := c.await(t, func(l line) bool { return l.Signal == signal })
				if !slices.Equal(l.Auth, []string{"Bearer " + token}) {
					t.Errorf("%s, %s: the %s came with %q", protocol, from, signal, l.Auth)
				}
			}
			stop(t, g)
			c.forget()
			if strings.Contains(g.Process.Output(), token) {
				t.Errorf("%s, %s: the log has the token", protocol, from)
			}
		}
	}
	// Without its certificate and its authority the gateway does not reach the collector, and calls go on.
	echo := startEcho(t)
	for endpoint, line := range map[string]string{c.http: "certificate", echo: "[redacted]"} {
		g := startQuick(t, rig.Config{"upstreams": own(t), "telemetry": rig.Config{"otlp": rig.Config{
			"endpoint": endpoint, "protocol": "http", "headers": rig.Config{"Authorization": "Bearer ${OTLP_TOKEN}"},
		}}}, "OTLP_TOKEN="+token)
		if result := ask(t, g.URL, "own__meta", nil, nil); result["content"] == nil {
			t.Errorf("%v", result)
		}
		stop(t, g)
		if out := g.Process.Output(); !strings.Contains(out, "telemetry cannot be exported") || !strings.Contains(out, line) || strings.Contains(out, token) {
			t.Errorf("%s: the log is\n%s", endpoint, out)
		}
	}
}

// startEcho runs a collector that refuses everything and repeats the headers of the request.
func startEcho(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "you sent "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
