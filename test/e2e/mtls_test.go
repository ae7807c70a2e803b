package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// pemFile writes PEM blocks to a file and returns its path.
func pemFile(t *testing.T, dir, name string, blocks ...[]byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, bytes.Join(blocks, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serverTLS returns the tls section of a configuration with a certificate of ca, which also signs accepted client certificates.
func serverTLS(t *testing.T, dir string, ca *gatewaytest.Authority) rig.Config {
	cert, key := ca.Server()
	return rig.Config{
		"cert": pemFile(t, dir, "cert.pem", cert), "key": pemFile(t, dir, "key.pem", key), "client_ca": pemFile(t, dir, "ca.pem", ca.PEM()),
	}
}

// holder is a client with a certificate, a key, both or neither.
type holder struct {
	name string
	cert *tls.Certificate
	key  string
	who  string // expected principal, "" for a refusal
}

// transport returns a transport that sends the key.
func (h holder) transport(base *http.Transport) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if h.key != "" {
			r = r.Clone(r.Context())
			r.Header.Set("X-Api-Key", h.key)
		}
		return base.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestMutualTLS authenticates clients of the Go SDK and curl with certificates, at a gateway that also accepts API keys.
func TestMutualTLS(t *testing.T) {
	const key = "mcpgw_of_a_robot_0123456789"
	dir, ca, other := t.TempDir(), gatewaytest.NewAuthority(t), gatewaytest.NewAuthority(t)
	digest := sha256.Sum256([]byte(key))
	everything := rig.EverythingCommand(t)
	// Each principal may use one tool, so the list identifies the principal.
	tools := map[string]string{"agent-7": "e__echo", "db.internal": "e__get-sum", "pay": "e__get-env", "ann@corp.example": "e__get-tiny-image", "robot": "e__get-annotated-message"}
	var rules []rig.Config
	for subject, tool := range tools {
		rules = append(rules, rig.Config{"name": fmt.Sprintf("rule-%d", len(rules)), "effect": "allow", "who": rig.Config{"subjects": []string{subject}}, "what": rig.Config{"tools": []string{tool}}})
	}
	g := rig.StartGateway(t, rig.Config{
		"tls": serverTLS(t, dir, ca),
		"auth": rig.Config{
			"mode":     []string{"api-key", "mtls"},
			"api_keys": []rig.Config{{"id": "robot", "sha256": hex.EncodeToString(digest[:])}},
			"mtls": []rig.Config{
				{"cn": "agent-*"}, {"dns": "*.internal"}, {"uri": "spiffe://corp/agents/*", "subject": "*"}, {"email": "*@corp.example"},
			},
		},
		"policy":    rig.Config{"default": "deny", "rules": rules},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	endpoint := strings.Replace(g.URL, "http:", "https:", 1)
	cert := func(ca *gatewaytest.Authority, with func(c *x509.Certificate)) *tls.Certificate {
		c := ca.Client(with)
		return &c
	}
	cn := func(name string) func(c *x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	holders := []holder{
		{"common name", cert(ca, cn("agent-7")), "", "agent-7"},
		{"DNS name", cert(ca, func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere.example", "db.internal"} }), "", "db.internal"},
		{"URI", cert(ca, func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "corp", Path: "/agents/pay"}} }), "", "pay"},
		{"e-mail address", cert(ca, func(c *x509.Certificate) { c.EmailAddresses = []string{"ann@corp.example"} }), "", "ann@corp.example"},
		{"key", nil, key, "robot"},
		{"nothing", nil, "", ""},
		{"unknown key", nil, "mcpgw_wrong", ""},
		{"certificate and key", cert(ca, cn("agent-7")), key, ""},
		{"unknown name", cert(ca, cn("stranger")), "", ""},
		{"unknown name and a key", cert(ca, cn("stranger")), key, "robot"},
		{"another authority", cert(other, cn("agent-7")), "", ""},
		{"expired", cert(ca, func(c *x509.Certificate) {
			c.Subject.CommonName, c.NotBefore, c.NotAfter = "agent-7", time.Now().Add(-2*time.Hour), time.Now().Add(-time.Minute)
		}), "", ""},
		{"not yet valid", cert(ca, func(c *x509.Certificate) {
			c.Subject.CommonName, c.NotBefore, c.NotAfter = "agent-7", time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}), "", ""},
		{"certificate of a server", cert(ca, func(c *x509.Certificate) {
			c.Subject.CommonName, c.ExtKeyUsage = "agent-7", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "", ""},
	}
	for _, h := range holders {
		for _, era := range []string{client.Legacy, client.Modern} {
			t.Run("Go SDK "+era+", "+h.name, func(t *testing.T) {
				conf := &tls.Config{RootCAs: ca.Pool()}
				if h.cert != nil {
					// The client ignores the server's list of trusted authorities, as an attacker would.
					conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return h.cert, nil }
				}
				connections := &http.Transport{TLSClientConfig: conf}
				defer connections.CloseIdleConnections()
				got, err := toolsOf(t, era, endpoint, h.transport(connections))
				switch {
				case h.who == "" && err == nil:
					t.Errorf("the client is accepted and sees %q", got)
				case h.who != "" && (err != nil || strings.Join(got, " ") != tools[h.who]):
					t.Errorf("the client sees %q, %v; want the tools of %s", got, err, h.who)
				}
			})
		}
	}
	for i, h := range holders {
		t.Run("curl, "+h.name, func(t *testing.T) {
			args := []string{
				"curl", "--silent", "--show-error", "--max-time", "30", "--cacert", filepath.Join(dir, "ca.pem"), "--write-out", "\n%{http_code}",
				"--header", "Content-Type: application/json", "--header", "Accept: application/json, text/event-stream",
				"--data", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, endpoint,
			}
			if h.key != "" {
				args = append(args, "--header", "X-Api-Key: "+h.key)
			}
			if h.cert != nil {
				der, err := x509.MarshalPKCS8PrivateKey(h.cert.PrivateKey)
				if err != nil {
					t.Fatal(err)
				}
				args = append(args, "--cert", pemFile(t, dir, fmt.Sprint(i), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.cert.Certificate[0]}),
					pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
			}
			out, _, err := process.Run(t.Context(), t, "", process.Options{Args: args})
			at := strings.LastIndexByte(out, '\n')
			body, status := out[:max(at, 0)], out[at+1:]
			refusal := "401"
			if h.cert != nil && h.key != "" { // two credentials
				refusal = "400"
			}
			switch {
			case h.who != "" && (err != nil || status != "200" || !strings.Contains(body, `"`+tools[h.who]+`"`)):
				t.Errorf("got %s %s, %v", status, body, err)
			case h.who == "" && err == nil && status != refusal || strings.Contains(body, "e__") != (h.who != ""):
				t.Errorf("got %s %s", status, body)
			}
		})
	}
}

// toolsOf returns the names of the tools that a client of the Go SDK sees.
func toolsOf(t *testing.T, era, endpoint string, transport http.RoundTripper) (names []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	options := &mcp.ClientSessionOptions{}
	if era == client.Legacy {
		options.ProtocolVersion = "2025-11-25"
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "holder", Version: "1.0.0"}, nil)
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1}, options)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}
