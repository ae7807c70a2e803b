package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/tlsfiles"
	"mcpgateway/internal/upstream/connector"
)

// expiries is a collector of the times at which the credentials of the configuration in force
// expire, of certificates that could not be renewed, of grants that are missing, and of upstreams with lists that fail and
// tools that are held. Credentials that never expire have no series.
type expiries struct{ g *Gateway }

var (
	certificateExpiry = prometheus.NewDesc("mcp_gateway_certificate_expiry_timestamp_seconds",
		"When the certificate that the gateway serves expires.", nil, nil)
	certificateReloaded = prometheus.NewDesc("mcp_gateway_certificate_last_reload_successful",
		"Whether the files of tls could be used when they were last read: 1 or 0.", nil, nil)
	keyExpiry = prometheus.NewDesc("mcp_gateway_api_key_expiry_timestamp_seconds",
		"When the API key of the configuration expires.", []string{"id"}, nil)
	clientCertExpiry = prometheus.NewDesc("mcp_gateway_upstream_certificate_expiry_timestamp_seconds",
		"When the certificate that the gateway shows to the upstream expires.", []string{"upstream"}, nil)
	clientCertReloaded = prometheus.NewDesc("mcp_gateway_upstream_certificate_last_reload_successful",
		"Whether the files of ca and client_cert of the upstream could be used when they were last read: 1 or 0.", []string{"upstream"}, nil)
	grantMissing = prometheus.NewDesc("mcp_gateway_upstream_grant_missing",
		"Whether the gateway has no grant of its own for an upstream with grants of users: 1 or 0.", []string{"upstream"}, nil)
	upstreamDegraded = prometheus.NewDesc("mcp_gateway_upstream_degraded",
		"Whether there is a conversation with the upstream and one of its lists cannot be fetched: 1 or 0.", []string{"upstream"}, nil)
	toolsHeld = prometheus.NewDesc("mcp_gateway_upstream_tools_held",
		"Tools of the shared lists that are hidden because their definitions are not the pinned ones, without those that a person has refused.", []string{"upstream"}, nil)
)

// Describe implements prometheus.Collector.
func (e expiries) Describe(to chan<- *prometheus.Desc) {
	to <- certificateExpiry
	to <- certificateReloaded
	to <- keyExpiry
	to <- clientCertExpiry
	to <- clientCertReloaded
	to <- grantMissing
	to <- upstreamDegraded
	to <- toolsHeld
}

// Collect implements prometheus.Collector.
func (e expiries) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, at time.Time, labels ...string) {
		if !at.IsZero() {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.Unix()), labels...)
		}
	}
	if e.g.certs != nil {
		gauge(certificateExpiry, tlsfiles.FirstExpiry(e.g.certs.Get))
		to <- prometheus.MustNewConstMetric(certificateReloaded, prometheus.GaugeValue, oneIf(e.g.certs.Failure() == nil))
	}
	now := e.g.generation.Load()
	for _, k := range now.cfg.Auth.APIKeys { // their ids differ
		gauge(keyExpiry, k.ExpiresAt(), k.ID)
	}
	held := e.g.heldTools()
	for _, u := range now.entries {
		c := u.active.Load()
		to <- prometheus.MustNewConstMetric(upstreamDegraded, prometheus.GaugeValue, oneIf(c.snapshot().State == connector.Degraded), u.name)
		if u.pins != nil {
			to <- prometheus.MustNewConstMetric(toolsHeld, prometheus.GaugeValue, float64(held[u.name].waiting), u.name)
		}
		if c.tls != nil {
			gauge(clientCertExpiry, tlsfiles.FirstExpiry(c.tls.Get), u.name)
			to <- prometheus.MustNewConstMetric(clientCertReloaded, prometheus.GaugeValue, oneIf(c.tls.Failure() == nil), u.name)
		}
		if c.credentials != nil && c.credentials.TakesGrants() {
			to <- prometheus.MustNewConstMetric(grantMissing, prometheus.GaugeValue, oneIf(c.credentials.NeedsGrant(nil)), u.name)
		}
	}
}

// oneIf is the value of a gauge that is 1 or 0.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
