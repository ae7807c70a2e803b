package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// ownURLHint is advice for an upstream that is the gateway itself.
const ownURLHint = "a gateway in front of itself would list its own tools without end; set the url of the server behind it, or remove this upstream"

// CheckLoops reports upstreams whose URL is an address of the gateway itself, as [Errors]. It is called
// after flags have changed the addresses, and only for a gateway that listens. Loops that a URL does not
// show are detected on connection.
func (c *Config) CheckLoops() error {
	var errs Errors
	for _, u := range c.Upstreams {
		if is := c.ownURL(u); is != "" {
			e := u.URLPlace
			e.Msg = "is " + is + "; " + ownURLHint
			errs = append(errs, &e)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs.Sorted()
}

// ownURL names the address of the gateway that the URL of an upstream leads to, "" for none.
func (c *Config) ownURL(u Upstream) string {
	for _, s := range u.AllURLs() {
		if is := c.OwnAddress(s); is != "" && !u.Disabled {
			return is
		}
	}
	return ""
}

// OwnAddress names the address of the gateway that a URL leads to, "" for none.
func (c *Config) OwnAddress(s string) string {
	at, err := url.Parse(s)
	if err != nil || s == "" {
		return ""
	}
	host, port := at.Hostname(), portOf(at)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = localhost // an unspecified address leads to this machine
	}
	switch {
	case leadsTo(host, port, c.Listen):
		return "the address that this gateway listens on (listen)"
	case leadsTo(host, port, c.Admin.Listen):
		return "the address of this gateway's own health and metrics (admin.listen)"
	}
	public, err := url.Parse(c.PublicURL)
	if err != nil || c.PublicURL == "" || !sameHost(host, public.Hostname()) || port != portOf(public) {
		return ""
	}
	// A proxy may serve other servers at other paths of the same host.
	for _, endpoint := range []string{"/mcp", "/sse"} {
		path := public.Path + endpoint
		if at.Path == path || strings.HasPrefix(at.Path, path+"/") {
			return "this gateway's own public_url"
		}
	}
	return ""
}

// portOf is the port of an http or https URL.
func portOf(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// leadsTo reports whether host and port spell an address on which a server with the listen address
// accepts connections.
func leadsTo(host, port, address string) bool {
	own, ownPort, err := net.SplitHostPort(address)
	if err != nil || port != ownPort || port == "0" {
		return false
	}
	if sameHost(host, own) {
		return true
	}
	ip, err := netip.ParseAddr(own)
	if everywhere := own == "" || err == nil && ip.IsUnspecified(); !everywhere {
		return false
	}
	to, err := netip.ParseAddr(host)
	return canonicalHost(host) == localhost || err == nil && to.Unmap().IsLoopback()
}

func sameHost(a, b string) bool { return canonicalHost(a) == canonicalHost(b) }

const localhost = "localhost"

// canonicalHost is the normal form of a host. 127.0.0.1 and ::1 are localhost, since that name resolves to
// either. Other loopback addresses may belong to other servers.
func canonicalHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	switch ip = ip.Unmap(); ip {
	case netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback():
		return localhost
	}
	return ip.String()
}
