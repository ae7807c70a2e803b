package gateway

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
)

// An upstream may have a certificate of an authority that the system does not know, and demand
// one from the gateway. What is missing is in the reason why the upstream is down.
func TestTLSTowardUpstreams(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	if err := os.WriteFile(dir+"/empty.pem", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inner, _ := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem, client_ca: %[1]s/ca.pem}\n", dir)+aDisabledUpstream, true)
	front := func(keys string) *Gateway {
		t.Helper()
		g, _ := start(t, fmt.Sprintf("upstreams:\n  inner: {url: %q%s}\n", inner.URL(), strings.ReplaceAll(keys, "DIR", dir)), false)
		return g
	}
	const own = ", client_cert: {cert: DIR/client.pem, key: DIR/client-key.pem}"
	up := front(", ca: DIR/ca.pem" + own)
	polltest.Until(t, "the upstream to settle", func() bool { return up.Upstreams()[0].State == connector.Ready })
	for keys, want := range map[string]string{
		"":                         "name a file with that authority's certificate under ca",
		own:                        "name a file with that authority's certificate under ca",
		", ca: DIR/ca.pem":         "client certificate, which you name under client_cert",
		", ca: DIR/none.pem" + own: "ca: open " + dir + "/none.pem: no such file",
		", ca: DIR/empty.pem":      "ca: " + dir + "/empty.pem has no certificates in PEM",
		", client_cert: {cert: DIR/client.pem, key: DIR/key.pem}": "client_cert: " + dir + "/client.pem and " + dir + "/key.pem: tls: private key does not match public key",
	} {
		g := front(keys)
		polltest.Until(t, "the upstream to settle", func() bool { return g.Upstreams()[0].State == connector.Down })
		if got := g.Upstreams()[0].Reason; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
	}
}

// A reload that names files which cannot be used keeps a connection that works, says so, and applies them when they appear.
// Files that never worked are replaced.
func TestReloadNamesUnusableTLSFiles(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	good, err := os.ReadFile(dir + "/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	inner, _ := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}\n", dir)+aDisabledUpstream, true)
	text := func(keys, never string) string {
		return fmt.Sprintf("upstreams:\n  a: {url: %q, %s}\n  never: {url: \"https://127.0.0.1:1/mcp\", ca: %q}\n", inner.URL(), strings.ReplaceAll(keys, "DIR", dir), never)
	}
	f := runFile(t, text("ca: DIR/ca.pem", "none.pem"))
	polltest.Until(t, "a is ready", func() bool { return f.Upstreams()[0].State == connector.Ready })
	for _, c := range []struct{ keys, key, want string }{
		{"ca: DIR/new.pem", "ca", "must name a readable file with certificates in PEM: open " + dir + "/new.pem: no such file or directory"},
		{"timeout: 9s, ca: DIR/key.pem", "ca", "must name a readable file with certificates in PEM: " + dir + "/key.pem has no certificates in PEM"},
		{"ca: DIR/ca.pem, client_cert: {cert: DIR/client.pem, key: DIR/key.pem}", "client_cert", "must name readable files with a certificate and its private key in PEM: " + dir + "/client.pem and " + dir + "/key.pem: tls: private key does not match public key"},
		{"ca: DIR/new.pem", "ca", "must name a readable file with certificates in PEM: open " + dir + "/new.pem: no such file or directory"},
	} {
		f.write(t, text(c.keys, "other.pem"))
		r := f.answer(t)
		if len(r.Kept) != 1 || r.Kept[0].Upstream != "a" || !slices.Equal(r.Kept[0].Keeps, []string{"connection"}) || len(r.Kept[0].Errors) != 1 {
			t.Fatalf("%s: %+v", c.keys, r)
		}
		if e := r.Kept[0].Errors[0]; e.File != f.path || e.Line != 2 || e.Column == 0 || e.Key != "upstreams.a."+c.key || e.Message != c.want {
			t.Errorf("%s: %+v", c.keys, e)
		}
		if a := f.Upstreams()[0]; a.State != connector.Ready {
			t.Errorf("%s: %+v", c.keys, a)
		}
	}
	if never := f.Upstreams()[1].Reason; !strings.Contains(never, "other.pem") {
		t.Errorf("an upstream that never worked keeps its file: %s", never)
	}
	if err := os.WriteFile(dir+"/new.pem", good, 0o600); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the new file is in use", func() bool { return f.lastReload.Load().Kept == nil })
	// The files are watched only while they cannot be used: the reload that was asked for has read what the last one had.
	if r := f.answer(t); r.Noticed == nil || r.Kept != nil || r.Failing != nil || f.Upstreams()[0].State != connector.Ready {
		t.Errorf("with the file: %+v, %+v", r, f.Upstreams()[0])
	}
}
