package origin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// TrustProxies applies the X-Forwarded headers of trusted proxies before a handler: they
// replace the address and the host of the client, and the scheme of the URL. The headers of
// other senders are ignored. Each proxy is a network in CIDR form; another form panics.
func TrustProxies(proxies []string, next http.Handler) http.Handler {
	var trusted trustedProxies
	for _, n := range proxies {
		trusted = append(trusted, netip.MustParsePrefix(n))
	}
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && trusted.contains(from.Addr()) {
			r = trusted.forwardedRequest(r)
		}
		next.ServeHTTP(w, r)
	})
}

// trustedProxies are the networks of proxies whose headers are applied.
type trustedProxies []netip.Prefix

func (p trustedProxies) contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, n := range p {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// forwardedRequest returns a request as its client sent it to the first trusted proxy.
// Proxies append to the headers that they receive, so the last element counts: of addresses
// the last address that is not a trusted proxy.
func (p trustedProxies) forwardedRequest(r *http.Request) *http.Request {
	out := *r
	u := *r.URL
	out.URL = &u
	hops := listElements(r.Header["X-Forwarded-For"])
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(hops[i])
		if err != nil {
			break
		}
		out.RemoteAddr = net.JoinHostPort(addr.Unmap().String(), "0")
		if !p.contains(addr) {
			break
		}
	}
	if hosts := listElements(r.Header["X-Forwarded-Host"]); len(hosts) > 0 {
		if host := hosts[len(hosts)-1]; host != "" && !strings.ContainsAny(host, "/\\?#@\"<> \t") {
			out.Host = host
		}
	}
	if protos := listElements(r.Header["X-Forwarded-Proto"]); len(protos) > 0 {
		if proto := strings.ToLower(protos[len(protos)-1]); proto == "http" || proto == "https" {
			u.Scheme = proto
		}
	}
	return &out
}

// listElements returns the elements of a header whose value is a list.
func listElements(lines []string) []string {
	var all []string
	for _, line := range lines {
		for e := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(e))
		}
	}
	return all
}
