package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// expiries is a collector of the times at which the credentials of the configuration in force
// expire. Those that never expire have no series.
type expiries struct{ g *Gateway }

var (
	certificateExpiry = prometheus.NewDesc("mcp_gateway_certificate_expiry_timestamp_seconds",
		"When the certificate that the gateway serves expires.", nil, nil)
	keyExpiry = prometheus.NewDesc("mcp_gateway_api_key_expiry_timestamp_seconds",
		"When the API key of the configuration expires.", []string{"id"}, nil)
)

// Describe implements prometheus.Collector.
func (e expiries) Describe(to chan<- *prometheus.Desc) {
	to <- certificateExpiry
	to <- keyExpiry
}

// Collect implements prometheus.Collector.
func (e expiries) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, at time.Time, labels ...string) {
		if !at.IsZero() {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.Unix()), labels...)
		}
	}
	if e.g.certs != nil {
		gauge(certificateExpiry, e.g.certs.expires())
	}
	for _, k := range e.g.generation.Load().cfg.Auth.APIKeys { // their ids differ
		gauge(keyExpiry, k.ExpiresAt(), k.ID)
	}
}

// expires returns when the first certificate of the chain in use expires. It reads changed
// files as a handshake does, so that a gateway without new connections reports them too.
func (c *certificateFiles) expires() (first time.Time) {
	conf, err := c.get()
	if err != nil {
		return first
	}
	for _, pair := range conf.Certificates {
		for _, cert := range chainOf(&pair) {
			if first.IsZero() || cert.NotAfter.Before(first) {
				first = cert.NotAfter
			}
		}
	}
	return first
}

// chainOf returns the certificates of a pair.
func chainOf(pair *tls.Certificate) (chain []*x509.Certificate) {
	for _, der := range pair.Certificate {
		if cert, err := x509.ParseCertificate(der); err == nil { // LoadX509KeyPair has parsed the first one
			chain = append(chain, cert)
		}
	}
	return chain
}
