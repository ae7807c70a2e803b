package origin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Options say what a [Guard] lets through.
type Options struct {
	// Loopback says that the address is on loopback: then Host must be known, and
	// origins on loopback are trusted.
	Loopback bool
	// CheckHost says that Host must be known on other addresses too. It always must if
	// there are Hosts.
	CheckHost bool
	// IPHosts makes each IP address a known Host off loopback: probes send requests to
	// the IP address of a pod, and a page cannot rebind an IP address.
	IPHosts   bool
	Hosts     []string // known values of Host beside loopback and the public one: host or host:port
	MoreHosts []string // further known values, which do not make Host be checked
	Origins   []string // trusted origins beside our own: scheme://host[:port]
	PublicURL string   // the URL that clients use, "" if they use the address itself
}

// Guard decides which Host and Origin values are served. It is immutable.
type Guard struct {
	loopback  bool
	checkHost bool
	ipHosts   bool
	hosts     map[string]bool // lower case, with or without a port
	origins   map[string]bool // lower case
	public    string          // the origin of the public URL, or ""
}

// New returns a guard.
func New(o Options) *Guard {
	g := &Guard{
		loopback:  o.Loopback,
		checkHost: o.Loopback || o.CheckHost || len(o.Hosts) > 0,
		ipHosts:   o.IPHosts && !o.Loopback,
		hosts:     make(map[string]bool),
		origins:   make(map[string]bool),
	}
	for _, h := range slices.Concat(o.Hosts, o.MoreHosts) {
		g.hosts[strings.ToLower(h)] = true
	}
	for _, origin := range o.Origins {
		g.origins[normalize(strings.TrimSuffix(origin, "/"))] = true
	}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		g.public = normalize(u.Scheme + "://" + u.Host)
		_, host, _ := strings.Cut(g.public, "://")
		g.hosts[host] = true
	}
	return g
}

// normalize returns an origin as browsers send it: in lower case, and without the default
// port of the scheme.
func normalize(origin string) string {
	origin = strings.ToLower(origin)
	for scheme, port := range map[string]string{"http://": ":80", "https://": ":443"} {
		if strings.HasPrefix(origin, scheme) {
			return strings.TrimSuffix(origin, port)
		}
	}
	return origin
}

// Refusal returns why a request is not served, or "" if it is.
func (g *Guard) Refusal(r *http.Request) string {
	if g.checkHost && !g.knowsHost(r.Host) {
		return "the Host header names no host that is served here"
	}
	if origin := r.Header["Origin"]; len(origin) > 0 && (len(origin) > 1 || !g.trusts(origin[0], r.Host)) {
		return "requests from this Origin are not served"
	}
	return ""
}

// IsConfigured reports whether an origin is one of Options.Origins.
func (g *Guard) IsConfigured(origin string) bool { return g.origins[strings.ToLower(origin)] }

// Shown returns the value of an Origin header for the log: scheme, host and port, with a note if there is more or
// something else, which may be secret.
func Shown(value string) string {
	const malformed = "(malformed)"
	u, err := url.Parse(value)
	switch {
	case value == "null": // of pages without an origin
		return value
	case err != nil || u.Scheme == "" || u.Opaque != "":
		return malformed
	}
	if shown := u.Scheme + "://" + u.Host; !strings.EqualFold(shown, value) {
		return shown + " " + malformed
	}
	return value
}

// knowsHost reports whether a Host is known.
func (g *Guard) knowsHost(host string) bool {
	name := hostName(host)
	if IsLoopback(name) || g.hosts[strings.ToLower(host)] || g.hosts[strings.ToLower(name)] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return g.ipHosts && err == nil
}

// trusts reports whether pages of an origin may send requests. Trusted origins are our
// own, those of Options.Origins, and on a loopback address all origins on loopback.
func (g *Guard) trusts(origin, host string) bool {
	origin = strings.ToLower(origin)
	if g.origins[origin] || (g.public != "" && origin == g.public) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	return strings.EqualFold(u.Host, host) || (g.loopback && IsLoopback(hostName(u.Host)))
}

// hostName returns a host without its port, its brackets, and the final dot of an
// absolute name.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return strings.TrimSuffix(name, ".")
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
}

// IsLoopback reports whether a host name or IP address, without a port, is on loopback.
func IsLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// IsLoopbackHost reports whether a host, with or without a port, is on loopback.
func IsLoopbackHost(host string) bool { return IsLoopback(hostName(host)) }
