package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// overTLS returns a client that trusts an authority and sends the given certificate, if any.
// Each request uses a new connection.
func overTLS(t *testing.T, ca *gatewaytest.Authority, cert ...tls.Certificate) *http.Client {
	t.Helper()
	return &http.Client{Timeout: testTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: cert},
	}}
}

func ping(client *http.Client, url string) (status int, header http.Header, body string, err error) {
	resp, err := client.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), err
}

const aDisabledUpstream = "upstreams: {a: {command: a, disabled: true}}\n"

func TestClientCertificates(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	files := fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem, client_ca: %[1]s/ca.pem}\n", dir)
	g, _ := start(t, files+"auth: {mode: mtls, mtls: [{cn: 'agent-*', subject: '*'}]}\npolicy: {default: allow}\n"+aDisabledUpstream, false)
	named := func(ca *gatewaytest.Authority, cn string) tls.Certificate {
		return ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = cn })
	}
	url := g.URL()
	if !strings.HasPrefix(url, "https://") {
		t.Errorf("the URL is %s", url)
	}
	if status, _, body, err := ping(overTLS(t, ca, named(ca, "agent-7")), url); status != http.StatusOK {
		t.Errorf("got %d %s %v", status, body, err)
	}
	for name, client := range map[string]*http.Client{
		"no certificate": overTLS(t, ca), "one without a rule": overTLS(t, ca, named(ca, "stranger")),
	} {
		status, header, body, err := ping(client, url)
		if status != http.StatusUnauthorized || header.Get("WWW-Authenticate") != `ClientCertificate realm="mcpgateway"` {
			t.Errorf("%s: %d %s %s %v", name, status, header.Get("WWW-Authenticate"), body, err)
		}
	}
	other := gatewaytest.NewAuthority(t)
	// The client may see the refusal of its certificate in the handshake or at the first read.
	if status, _, _, err := ping(overTLS(t, ca, named(other, "agent-7")), url); err == nil {
		t.Errorf("a certificate of another authority: %d", status)
	}
	if _, _, _, err := ping(&http.Client{Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true}}, strings.Replace(url, "https:", "http:", 1)); err != nil {
		t.Errorf("plain HTTP: %v", err) // net/http answers 400 in plain text
	}
	if status, _, _, err := ping(overTLS(t, other), url); err == nil {
		t.Errorf("a client that does not trust the gateway's certificate: %d", status)
	}
	polltest.Until(t, "the three failed handshakes are counted", func() bool { return gauge(t, g, "mcp_gateway_tls_handshake_failures_total") == "3" })
}

// Without auth.mode mtls, client_ca refuses handshakes with unknown certificates.
func TestCertificatesBesideKeys(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	g, _ := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem, client_ca: %[1]s/ca.pem}\n", dir)+aDisabledUpstream, false)
	if status, _, _, err := ping(overTLS(t, ca), g.URL()); err == nil {
		t.Errorf("without a certificate: %d", status)
	}
	with := ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "any" })
	if status, _, body, err := ping(overTLS(t, ca, with), g.URL()); status != http.StatusOK {
		t.Errorf("got %d %s %v", status, body, err)
	}
}

func TestMetadataBehindTrustedProxy(t *testing.T) {
	for proxy, want := range map[string]string{"127.0.0.1": `"resource":"https://mcp.example.com/mcp"`, "192.0.2.1": `"resource":"http://127.0.0.1:`} {
		g, _ := start(t, "trusted_proxies: ["+proxy+"]\nauth: {mode: jwt, jwt: [{issuer: 'https://idp.example.com', audience: a}]}\n"+aDisabledUpstream, false)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.Addr()+"/.well-known/oauth-protected-resource/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-Host", "mcp.example.com")
		req.Header.Set("X-Forwarded-Proto", "https")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("behind %s: %s, %v", proxy, body, err)
		}
	}
}

// auth.insecure is logged at every start.
func TestInsecureIsLogged(t *testing.T) {
	for listen, want := range map[string]int{"0.0.0.0:8080": 1, "127.0.0.1:8080": 0} {
		core, logs := observer.New(zap.WarnLevel)
		g := &Gateway{cfg: &config.Config{Listen: listen, Auth: config.Auth{Mode: []config.AuthMode{config.AuthNone}, Insecure: true}}, log: zap.New(core)}
		g.logAuthModes()
		if logs.Len() != want {
			t.Errorf("%s: %v", listen, logs.All())
		}
		if !g.settingsOf(g.cfg).CheckHost {
			t.Errorf("%s: Host is not checked", listen)
		}
	}
}

// Over TLS clients may use HTTP/2. Draining ends its streams cleanly.
func TestHTTP2(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	g, end := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}\n", dir)+aDisabledUpstream, false)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: testTimeout}
	do := func(verb, session, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), verb, g.URL(), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", verb, resp.Proto, resp.Status)
		}
		return resp
	}
	session := do(http.MethodPost, "", initialize).Header.Get("Mcp-Session-Id")
	stream := do(http.MethodGet, session, "")
	end()
	if text, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the stream broke at the drain: %v after %s", err, text)
	}
}

// A client that comes back resumes its session of TLS, and a connection serves many
// requests.
func TestTLSSessionsResume(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	g, _ := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}\n", dir)+aDisabledUpstream, false)
	for _, h2 := range []bool{false, true} {
		handshakes, resumed := 0, 0
		transport := &http.Transport{ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{
			RootCAs: ca.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(1),
			VerifyConnection: func(state tls.ConnectionState) error {
				if handshakes++; state.DidResume {
					resumed++
				}
				return nil
			},
		}}
		client := &http.Client{Timeout: testTimeout, Transport: transport}
		for range 2 {
			for range 3 {
				if status, _, body, err := ping(client, g.URL()); status != http.StatusOK {
					t.Fatalf("got %d %s %v", status, body, err)
				}
			}
			transport.CloseIdleConnections()
		}
		if handshakes != 2 || resumed != 1 {
			t.Errorf("HTTP/2 %v: %d handshakes, of which %d resumed, want 2 and 1", h2, handshakes, resumed)
		}
	}
}

// New files of an upstream's client_cert that cannot be used show in a metric, in /readyz and in the status.
func TestFailedRenewalOfClientCertificateShows(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	g, _ := start(t, fmt.Sprintf("upstreams: {a: {url: \"https://127.0.0.1:1/mcp\", client_cert: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}}}\n", dir), false)
	const series = `mcp_gateway_upstream_certificate_last_reload_successful{upstream="a"}`
	if got := gauge(t, g, series); got != "1" {
		t.Errorf("at the start the metric is %q", got)
	}
	if err := os.WriteFile(dir+"/cert.pem", []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the metric is 0", func() bool { return gauge(t, g, series) == "0" })
	const begin, end = "upstream a: new TLS files cannot be used; the certificate in use expires at 2", "tls: failed to find any PEM data in certificate input"
	if ready := page(t, g, "/readyz"); !strings.Contains(ready, `"failing":["`+begin) || !strings.Contains(ready, end) {
		t.Errorf("/readyz is %s", ready)
	}
	if s, err := g.Status(); err != nil || len(s.Failing) != 1 || !strings.HasPrefix(s.Failing[0], begin) || !strings.HasSuffix(s.Failing[0], end) {
		t.Errorf("the status is %+v, %v", s, err)
	}
	ca.WriteFiles(dir)
	polltest.Until(t, "the metric is 1", func() bool { return gauge(t, g, series) == "1" })
	if ready := page(t, g, "/readyz"); strings.Contains(ready, "failing") {
		t.Errorf("/readyz is %s", ready)
	}
}

// New files of tls that cannot be used show in /readyz, in the status and in a metric, with the paths of the files.
func TestFailedRenewalShows(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	g, _ := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}\n", dir)+aDisabledUpstream, false)
	const series = "mcp_gateway_certificate_last_reload_successful"
	if got := gauge(t, g, series); got != "1" {
		t.Errorf("at the start the metric is %q", got)
	}
	if err := os.WriteFile(dir+"/cert.pem", []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the metric is 0", func() bool { return gauge(t, g, series) == "0" })
	want := "tls.cert and tls.key: " + dir + "/cert.pem and " + dir + "/key.pem: tls: failed to find any PEM data in certificate input"
	if ready := page(t, g, "/readyz"); !strings.Contains(ready, `"failing":["new TLS files cannot be used; the certificate in use expires at 2`) || !strings.Contains(ready, want) {
		t.Errorf("/readyz is %s", ready)
	}
	if s, err := g.Status(); err != nil || len(s.Failing) != 1 || !strings.HasSuffix(s.Failing[0], want) {
		t.Errorf("the status is %+v, %v", s, err)
	}
	ca.WriteFiles(dir)
	polltest.Until(t, "the metric is 1", func() bool { return gauge(t, g, series) == "1" })
	if ready := page(t, g, "/readyz"); strings.Contains(ready, "failing") {
		t.Errorf("/readyz is %s", ready)
	}
}
