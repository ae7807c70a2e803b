package frontend

import (
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"

	"mcpgateway/internal/wire"
)

// guard decides which Host and Origin values are served. A page that a user
// merely visits can send requests to any address that the browser reaches, and
// by rebinding its own name to a loopback address it can read the answers; the
// two headers are what tells such requests apart (2025-11-25 and 2026-07-28,
// basic/transports, "Security Warning"). A guard is immutable.
type guard struct {
	loopback  bool
	checkHost bool
	hosts     map[string]bool // lower case, with or without a port
	origins   map[string]bool // lower case
	own       string          // the origin of the public URL, "" when there is none
}

func newGuard(o Settings, loopback bool) *guard {
	g := &guard{
		loopback:  loopback,
		checkHost: loopback || len(o.AllowedHosts) > 0,
		hosts:     make(map[string]bool),
		origins:   make(map[string]bool),
	}
	for _, h := range o.AllowedHosts {
		g.hosts[strings.ToLower(h)] = true
	}
	for _, origin := range o.AllowedOrigins {
		g.origins[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		g.hosts[strings.ToLower(u.Host)] = true
		g.own = strings.ToLower(u.Scheme + "://" + u.Host)
	}
	return g
}

// refuses returns why a request is not served, "" when it is.
func (g *guard) refuses(r *http.Request) string {
	if g.checkHost && !g.knowsHost(r.Host) {
		return "the Host header names no host that is served here"
	}
	if origin := r.Header["Origin"]; len(origin) > 0 && (len(origin) > 1 || !g.trusts(origin[0], r.Host)) {
		return "requests from this Origin are not served"
	}
	return ""
}

func (g *guard) knowsHost(host string) bool {
	name := hostName(host)
	if isLoopback(name) {
		return true
	}
	return g.hosts[strings.ToLower(host)] || g.hosts[strings.ToLower(name)]
}

// trusts reports whether a page of this origin may send requests: our own
// origin, one that the configuration names, and on a loopback listener every
// page that is served from loopback.
func (g *guard) trusts(origin, host string) bool {
	origin = strings.ToLower(origin)
	if g.origins[origin] || (g.own != "" && origin == g.own) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false
	}
	return strings.EqualFold(u.Host, host) || (g.loopback && isLoopback(hostName(u.Host)))
}

// allowCORS lets a page of a configured origin read the answer. Origins that
// are trusted for another reason get nothing: they do not need it, or nobody
// has asked for it.
func (g *guard) allowCORS(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !g.origins[strings.ToLower(origin)] {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", wire.HeaderSession+", "+wire.HeaderVersion+", Retry-After, WWW-Authenticate")
	return true
}

// corsHeaders are the request headers that pages may send, beside those that
// mirror a tool's parameters.
var corsHeaders = []string{
	"Accept", "Authorization", "Content-Type", "X-Api-Key", "Traceparent", "Tracestate", "Baggage",
	wire.HeaderSession, wire.HeaderVersion, wire.HeaderMethod, wire.HeaderName, wire.HeaderLastEvent,
}

// preflight answers the question of a browser whether a page may send a request.
func (g *guard) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Allow", "GET, POST, DELETE, OPTIONS")
	if g.allowCORS(w, r) && r.Header.Get("Access-Control-Request-Method") != "" {
		allowed := strings.Join(corsHeaders, ", ")
		for _, list := range r.Header.Values("Access-Control-Request-Headers") {
			for name := range strings.SplitSeq(list, ",") {
				name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
				if strings.HasPrefix(name, wire.HeaderParamPrefix) && !strings.ContainsAny(name, " \t") {
					allowed += ", " + name
				}
			}
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", allowed)
		h.Set("Access-Control-Max-Age", "600")
	}
	bare(w, http.StatusNoContent)
}

// hostName returns a host without its port, without brackets, and without the
// dot that ends an absolute name.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return strings.TrimSuffix(name, ".")
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
}

func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}
