package gateway

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/tlsfiles"
)

// gauge returns the value of a series on the page of the metrics, "" for none.
func gauge(t *testing.T, g *Gateway, series string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (.*)$`).FindStringSubmatch(page(t, g, "/metrics"))
	if m == nil {
		return ""
	}
	return m[1]
}

func TestGaugesOfTheConfiguration(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	const key = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b68"
	g, _ := start(t, fmt.Sprintf(`
tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}
auth: {mode: api-key, api_keys: [{id: ci, sha256: %[2]s2, expires: 2030-01-01}, {id: old, sha256: %[2]s3}]}
upstreams:
  a: {command: a, disabled: true}
  certified: {url: "https://127.0.0.1:1/mcp", client_cert: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}}
  unreadable: {url: "https://127.0.0.1:1/mcp", client_cert: {cert: %[1]s/none.pem, key: %[1]s/key.pem}}
  granted: {url: "http://127.0.0.1:1/mcp", auth: {kind: user}}
`, dir, key), false)
	want := map[string]string{
		`mcp_gateway_config_last_reload_successful`:                                        "1",
		`mcp_gateway_api_key_expiry_timestamp_seconds{id="ci"}`:                            "1.893456e+09",
		`mcp_gateway_api_key_expiry_timestamp_seconds{id="old"}`:                           "",
		`mcp_gateway_upstream_concurrency_limit{upstream="other"}`:                         "",
		`mcp_gateway_upstream_certificate_expiry_timestamp_seconds{upstream="certified"}`:  fmt.Sprintf("%g", float64(tlsfiles.FirstExpiry(g.certs.Get).Unix())),
		`mcp_gateway_upstream_certificate_expiry_timestamp_seconds{upstream="unreadable"}`: "",
		`mcp_gateway_upstream_certificate_expiry_timestamp_seconds{upstream="granted"}`:    "",
		`mcp_gateway_upstream_certificate_last_reload_successful{upstream="certified"}`:    "1",
		`mcp_gateway_upstream_certificate_last_reload_successful{upstream="unreadable"}`:   "0",
		`mcp_gateway_upstream_certificate_last_reload_successful{upstream="granted"}`:      "",
		`mcp_gateway_upstream_grant_missing{upstream="granted"}`:                           "1",
		`mcp_gateway_upstream_grant_missing{upstream="certified"}`:                         "",
	}
	for series, value := range want {
		if got := gauge(t, g, series); got != value {
			t.Errorf("%s is %q, want %q", series, got, value)
		}
	}
	if at := tlsfiles.FirstExpiry(g.certs.Get); !at.After(time.Now()) || gauge(t, g, "mcp_gateway_certificate_expiry_timestamp_seconds") == "" {
		t.Errorf("the certificate expires %s", at)
	}
	if text := page(t, g, "/metrics"); !strings.Contains(text, `mcp_gateway_build_info{goversion="go`) || !strings.Contains(text, `version="test"} 1`) {
		t.Error("no build info")
	}
	at := gauge(t, g, "mcp_gateway_config_last_reload_success_timestamp_seconds")
	g.logRefused(Changes{}, fmt.Errorf("broken"))
	if gauge(t, g, "mcp_gateway_config_last_reload_successful") != "0" || gauge(t, g, "mcp_gateway_config_last_reload_success_timestamp_seconds") != at {
		t.Error("a refused reload counts as successful")
	}
	g.logReloaded(Changes{})
	if gauge(t, g, "mcp_gateway_config_last_reload_successful") != "1" || gauge(t, g, "mcp_gateway_config_last_reload_success_timestamp_seconds") == at {
		t.Error("a reload does not count as successful")
	}
}

// Optional upstreams that are down are named; the gateway is ready all the same.
func TestReadyNamesWhatIsDown(t *testing.T) {
	g, _ := start(t, "startup_wait: 20s\nupstreams: {gone: {command: /no/such/program, max_concurrent: 7}}", false)
	var ready struct {
		Status string
		Down   []string
	}
	polltest.Until(t, "the gateway is ready", func() bool {
		if err := json.Unmarshal([]byte(page(t, g, "/readyz")), &ready); err != nil {
			t.Fatal(err)
		}
		return ready.Status == "ready"
	})
	if len(ready.Down) != 1 || !regexp.MustCompile(`^upstream gone is down since \S+Z: .`).MatchString(ready.Down[0]) {
		t.Errorf("down is %q", ready.Down)
	}
	if got := gauge(t, g, `mcp_gateway_upstream_concurrency_limit{upstream="gone"}`); got != "7" {
		t.Errorf("the limit is %q", got)
	}
	if got := gauge(t, g, `mcp_gateway_upstream_queued_requests{upstream="gone"}`); got != "0" {
		t.Errorf("%q calls wait", got)
	}
}
