package credentials

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
)

func TestPublicAddresses(t *testing.T) {
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "2606:4700::1111", "2001:4860:4860::8888", "64:ff9b::808:808", "2002:808:808::1"} {
		if !isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "172.16.0.1", "192.0.0.192", "192.168.1.1",
		"198.18.0.1", "203.0.113.5", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:169.254.169.254", "::127.0.0.1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1",
		"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "64:ff9b:1::1", "fec0::1",
		"::ffff:0:169.254.169.254", "::ffff:0:a00:1", "100::1", "100:0:0:1::1", "5f00::1", "3fff::1", "4000::1",
	} {
		g := newGuard(at(t, "https://mcp.example.com/mcp"))
		if g.checkIP(netip.MustParseAddr(text)) == nil {
			t.Errorf("%s is public", text)
		}
	}
}

func TestURLs(t *testing.T) {
	remote := newGuard(at(t, "https://mcp.example.com/mcp"), "https://login.corp:8443/x", "")
	inside := newGuard(at(t, "http://10.0.0.5/mcp"))
	local := newGuard(at(t, "http://localhost:9000/mcp"))
	for _, tc := range []struct {
		g    *guard
		url  string
		good bool
	}{
		{remote, "https://auth.example.com/x", true},
		{remote, "https://mcp.example.com/x", true},
		{remote, "https://login.corp:8443/token", true},
		{remote, "https://login.corp/token", true}, // a name, whose address is checked later
		{remote, "http://auth.example.com/x", false},
		{remote, "http://mcp.example.com/x", false},
		{remote, "https://169.254.169.254/latest", false},
		{remote, "https://[::ffff:169.254.169.254]/", false},
		{remote, "https://127.0.0.1/", false},
		{remote, "http://127.0.0.1/", false},
		{remote, "http://localhost:9000/", false},
		{remote, "https://user:pass@auth.example.com/", false},
		{remote, "ftp://auth.example.com/", false},
		{remote, "file:///etc/passwd", false},
		{remote, "https:auth.example.com", false},
		{remote, "//auth.example.com", false},
		{remote, "", false},
		{remote, "https://auth.example.com/" + strings.Repeat("x", maxURL), false},
		{inside, "http://10.0.0.5/.well-known/x", true},
		{inside, "https://10.0.0.5/x", false},
		{inside, "http://10.0.0.5:8080/x", false},
		{inside, "https://10.0.0.6/x", false},
		{local, "http://127.0.0.1:1234/", true},
		{local, "http://[::1]:1234/", true},
		{local, "http://localhost:1/", true},
		{local, "https://169.254.169.254/", false},
		{local, "http://10.0.0.1/", false},
	} {
		if _, err := tc.g.checkText(tc.url); (err == nil) != tc.good {
			t.Errorf("%.80s: %v", tc.url, err)
		}
	}
}

// TestNamesAreCheckedWhenTheyAreResolved uses a harmless host name that resolves to a
// private address.
func TestNamesAreCheckedWhenTheyAreResolved(t *testing.T) {
	var asked atomic.Int32
	u := at(t, serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	g := newGuard(at(t, "https://mcp.example.com/mcp"))
	named := at(t, "https://localhost:"+u.Port()+"/token")
	if err := g.check(named); err != nil {
		t.Fatalf("the name is found out before it is resolved: %v", err)
	}
	_, err := g.fetch(t.Context(), "the document", named)
	if !errors.Is(errors.Unwrap(err), errAddress) || err.Error() != "the document leads to an address that is not public" {
		t.Errorf("got %v", err)
	}
	if asked.Load() != 0 {
		t.Error("the server was asked")
	}
}

// TestOddAddresses uses hosts that Go does not parse as addresses, but some resolvers do.
// No connection may reach them.
func TestOddAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int32
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			c.Close()
		}
	}()
	defer func() {
		l.Close()
		<-ended
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	g := newGuard(at(t, "https://mcp.example.com/mcp"))
	for _, host := range []string{
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "017700000001", "0", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]",
		"localhost.", "LOCALHOST", "127.0.0.1.", "[::1%25lo]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "１２７.0.0.1", "127。0。0。1",
	} {
		for _, scheme := range []string{"http", "https"} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the resolver may be unreachable
			to, err := url.Parse(scheme + "://" + host + ":" + port + "/latest")
			if err == nil {
				_, err = g.fetch(ctx, "the document", to)
			}
			cancel()
			if n := connections.Swap(0); err == nil || n != 0 {
				t.Errorf("%s://%s: %v, %d connections", scheme, host, err, n)
			}
		}
	}
}

func TestRedirects(t *testing.T) {
	var inner atomic.Int32
	secret := serve(t, func(w http.ResponseWriter, r *http.Request) { inner.Add(1) })
	// The guard refuses the URL before a connection is made.
	want := map[string]string{"to the metadata of a cloud": "is not an https URL", "to another scheme": "is not an https URL", "endless": "redirects"}
	for name, to := range map[string]string{"to the metadata of a cloud": "http://169.254.169.254/latest/meta-data/", "to another scheme": "ftp://x/", "endless": ""} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if to == "" {
					http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
					return
				}
				http.Redirect(w, r, to, http.StatusFound)
			})
			g := newGuard(at(t, u))
			a, err := g.fetch(t.Context(), "the document", at(t, u+"/doc"))
			if err == nil || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), want[name]) {
				t.Errorf("got %+v, %v: %v; want %s", a, err, errors.Unwrap(err), want[name])
			}
		})
	}
	t.Run("from a trusted host on loopback to loopback", func(t *testing.T) {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret, http.StatusFound) })
		g := newGuard(at(t, "https://mcp.example.com/mcp"), u) // the configuration names u, but not the target of the redirect
		if a, err := g.fetch(t.Context(), "the document", at(t, u)); err == nil || inner.Load() != 0 {
			t.Errorf("got %+v; the other server was asked %d times", a, inner.Load())
		}
	})
	t.Run("of a token endpoint", func(t *testing.T) {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, secret, http.StatusTemporaryRedirect)
		})
		fails(t, source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: "s3cret"}, TokenURL: u}}), nil, "answered HTTP 307")
		if inner.Load() != 0 {
			t.Error("the secret was sent on")
		}
	})
}

// TestMetadataThatLeadsAstray uses metadata with endpoints that the guard refuses.
func TestMetadataThatLeadsAstray(t *testing.T) {
	for _, name := range []string{"token_endpoint", "authorization_endpoint", "registration_endpoint", "jwks_uri"} {
		for _, to := range []string{"http://169.254.169.254/token", "https://169.254.169.254/token", "http://login.example.com/token", "https://u:p@login.example.com/"} {
			t.Run(name+" "+to, func(t *testing.T) {
				doc := map[string]string{"token_endpoint": "https://login.example.com/token", name: to}
				var g *guard
				var self string
				self = serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"issuer":%q`, self)
					for k, v := range doc {
						fmt.Fprintf(w, `,%q:%q`, k, v)
					}
					fmt.Fprint(w, `}`)
				})
				g = newGuard(at(t, "https://mcp.example.com/mcp"), self)
				if s, err := g.findServer(t.Context(), self); err == nil || !strings.Contains(err.Error(), "that the server names") {
					t.Errorf("got %+v, %v", s, err)
				}
			})
		}
	}
}

// Requests for credentials trust the authorities of the upstream too.
func TestRootsOfAnUpstream(t *testing.T) {
	ca := gatewaytest.NewAuthority(t)
	cert, key := ca.Server()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	srv.StartTLS()
	defer srv.Close()
	g := newGuard(at(t, srv.URL))
	if _, err := g.fetch(t.Context(), "it", at(t, srv.URL)); err == nil {
		t.Error("an unknown authority is trusted")
	}
	g.roots = ca.Pool
	if a, err := g.fetch(t.Context(), "it", at(t, srv.URL)); err != nil || a.Status != http.StatusNotFound {
		t.Errorf("got %d, %v", a.Status, err)
	}
}
