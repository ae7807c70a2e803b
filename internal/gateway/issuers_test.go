package gateway

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// TestIssuerIsAskedAtStart checks that the gateway asks for the keys of an issuer before a token
// comes, and says when it does not get them. It stays ready: other clients are served.
func TestIssuerIsAskedAtStart(t *testing.T) {
	for name, down := range map[string]bool{"up": false, "down": true} {
		t.Run(name, func(t *testing.T) {
			issuer := gatewaytest.NewIssuer(t)
			issuer.SetDown(down)
			core, logged := observer.New(zap.InfoLevel)
			g, _ := startLogged(t, `
public_url: https://gw.example.com
allowed_hosts: [127.0.0.1]
auth: {mode: jwt, jwt: [{issuer: "`+issuer.URL+`"}]}
upstreams: {a: {command: none, disabled: true}}
`, false, zap.New(core))
			polltest.Until(t, "the issuer is asked", func() bool { return strings.Contains(page(t, g, "/metrics"), "mcp_gateway_auth_issuer_up{") })
			ready := page(t, g, "/readyz")
			if !strings.Contains(ready, `"status":"ready"`) || strings.Contains(ready, "its keys cannot be fetched") != down {
				t.Errorf("/readyz answers %s", ready)
			}
			if down {
				polltest.Until(t, "a line", func() bool { return logged.FilterMessage("the keys of an issuer cannot be fetched").Len() == 1 })
			}
		})
	}
}
