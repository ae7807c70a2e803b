package origin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Options say what a [Guard] lets through.
type Options struct {
	// Loopback says that only this machine reaches the address: then Host must be
	// known, and origins on loopback are trusted.
	Loopback bool
	// CheckHost has Host be known on other addresses, too. It always must where
	// Hosts are named.
	CheckHost bool
	// Numbers takes every IP address for a known Host off loopback: programs that
	// ask a pod by its number name it so, and a page cannot rebind a number.
	Numbers   bool
	Hosts     []string // values of Host beside loopback and the public one, host or host:port
	Origins   []string // of browsers beside our own, scheme://host[:port]
	PublicURL string   // how clients reach us, "" when they use the address itself
}

// Guard decides which Host and Origin values are served. It is immutable.
type Guard struct {
	loopback  bool
	checkHost bool
	numbers   bool
	hosts     map[string]bool // lower case, with or without a port
	origins   map[string]bool // lower case
	own       string          // the origin of the public URL, "" when there is none
}

// New returns a guard.
func New(o Options) *Guard {
	g := &Guard{
		loopback:  o.Loopback,
		checkHost: o.Loopback || o.CheckHost || len(o.Hosts) > 0,
		numbers:   o.Numbers && !o.Loopback,
		hosts:     make(map[string]bool),
		origins:   make(map[string]bool),
	}
	for _, h := range o.Hosts {
		g.hosts[strings.ToLower(h)] = true
	}
	for _, origin := range o.Origins {
		g.origins[asSent(strings.TrimSuffix(origin, "/"))] = true
	}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		g.own = asSent(u.Scheme + "://" + u.Host)
		_, host, _ := strings.Cut(g.own, "://")
		g.hosts[host] = true
	}
	return g
}

// asSent returns an origin as browsers send it: in lower case, and without the port
// that goes without saying.
func asSent(origin string) string {
	origin = strings.ToLower(origin)
	for scheme, port := range map[string]string{"http://": ":80", "https://": ":443"} {
		if strings.HasPrefix(origin, scheme) {
			return strings.TrimSuffix(origin, port)
		}
	}
	return origin
}

// Refuses returns why a request is not served, "" when it is.
func (g *Guard) Refuses(r *http.Request) string {
	if g.checkHost && !g.knowsHost(r.Host) {
		return "the Host header names no host that is served here"
	}
	if origin := r.Header["Origin"]; len(origin) > 0 && (len(origin) > 1 || !g.trusts(origin[0], r.Host)) {
		return "requests from this Origin are not served"
	}
	return ""
}

// Names reports whether the configuration names an origin.
func (g *Guard) Names(origin string) bool { return g.origins[strings.ToLower(origin)] }

func (g *Guard) knowsHost(host string) bool {
	name := hostName(host)
	if IsLoopback(name) || g.hosts[strings.ToLower(host)] || g.hosts[strings.ToLower(name)] {
		return true
	}
	_, err := netip.ParseAddr(name)
	return g.numbers && err == nil
}

// trusts reports whether a page of this origin may send requests: our own
// origin, one that the configuration names, and on a loopback listener every
// page that is served from loopback.
func (g *Guard) trusts(origin, host string) bool {
	origin = strings.ToLower(origin)
	if g.origins[origin] || (g.own != "" && origin == g.own) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	return strings.EqualFold(u.Host, host) || (g.loopback && IsLoopback(hostName(u.Host)))
}

// hostName returns a host without its port, without brackets, and without the
// dot that ends an absolute name.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return strings.TrimSuffix(name, ".")
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
}

// IsLoopback reports whether a name or IP address, without a port, stands for this
// machine alone.
func IsLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// OnLoopback reports whether a host, with a port or without, is this machine alone.
func OnLoopback(host string) bool { return IsLoopback(hostName(host)) }
