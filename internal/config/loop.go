package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// ownURLHint says what to do about an upstream that is the gateway itself.
const ownURLHint = "a gateway in front of itself would list its own tools without end; give the url of the server behind it, or remove this upstream"

// CheckLoops refuses upstreams that are the gateway itself, with the place of
// each. It is asked once the addresses are known, since flags may change them,
// and only of a gateway that listens. Upstreams whose URL does not show what they
// are, are found out when they are connected to. The error is [Errors].
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

// ownURL says which of the gateway's own addresses an upstream's URL is, "" when
// it is none.
func (c *Config) ownURL(u Upstream) string {
	at, err := url.Parse(u.URL)
	if err != nil || u.URL == "" || u.Disabled {
		return ""
	}
	host, port := at.Hostname(), portOf(at)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = localhost // where such an address leads to
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
	// Behind a proxy other servers may stand at other paths of the same host.
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

// leadsTo tells whether a connection to host and port ends where a server
// listens on address, as far as the spelling says.
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

// canonicalHost is a host in one spelling. 127.0.0.1 and ::1 are localhost:
// which of them that name means is up to the machine. Other addresses of the
// loopback network may well be other servers.
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
