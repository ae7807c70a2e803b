package gateway

import (
	"fmt"
	"os"
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
