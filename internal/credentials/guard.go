package credentials

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/origin"
)

const (
	// requestTime bounds one request, attemptTime all requests for one token.
	requestTime = 10 * time.Second
	attemptTime = 30 * time.Second
	// maxDocument bounds the body of a response, maxAnswerHead its headers.
	maxDocument   = 1 << 20
	maxAnswerHead = 64 << 10
	maxRedirects  = 3
)

// guard restricts requests on behalf of one upstream. Discovery follows URLs of servers,
// and must not give them access to the gateway's network (2026-07-28,
// basic/security_best_practices, "Server-Side Request Forgery"). It is immutable.
type guard struct {
	trusted  map[string]bool       // origins of the configuration
	hosts    map[string]bool       // the same as host:port, for the dialer
	loopback bool                  // the upstream is on loopback
	roots    func() *x509.CertPool // see Options.Roots
}

// newGuard returns the guard of the upstream at u. configured are other URLs of the
// configuration.
func newGuard(u *url.URL, configured ...string) *guard {
	g := &guard{trusted: map[string]bool{}, hosts: map[string]bool{}, loopback: isLoopback(u.Hostname())}
	g.trust(u)
	for _, text := range configured {
		if c, err := url.Parse(text); err == nil && c.Host != "" {
			g.trust(c)
		}
	}
	// Connections to a proxy are trusted: its address comes from the environment.
	for _, scheme := range []string{"http", "https"} {
		u := &url.URL{Scheme: scheme, Host: "proxied.invalid"}
		if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
			g.hosts[oauthmeta.HostPort(proxy)] = true
		}
	}
	return g
}

func (g *guard) trust(u *url.URL) {
	g.trusted[oauthmeta.Origin(u)] = true
	g.hosts[oauthmeta.HostPort(u)] = true
}

// client returns a client whose connections the guard checks. It follows redirects only
// if follow is set; requests with secrets must not be redirected.
func (g *guard) client(follow bool) *http.Client {
	d := &net.Dialer{Timeout: requestTime, KeepAlive: -1}
	checked := *d
	checked.Control = func(_, address string, _ syscall.RawConn) error { return g.checkAddress(address) }
	var secure *tls.Config
	if g.roots != nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: g.roots()}
	}
	return &http.Client{
		Timeout: requestTime,
		Transport: bounded{&http.Transport{
			TLSClientConfig: secure,
			Proxy:           http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if g.hosts[strings.ToLower(address)] {
					return d.DialContext(ctx, network, address)
				}
				return checked.DialContext(ctx, network, address)
			},
			TLSHandshakeTimeout:    requestTime,
			MaxResponseHeaderBytes: maxAnswerHead,
			DisableKeepAlives:      true, // requests are rare, and an idle connection costs a goroutine
			ForceAttemptHTTP2:      true,
		}},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case !follow:
				return http.ErrUseLastResponse
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			}
			return g.check(r.URL)
		},
	}
}

// bounded limits responses to maxDocument and one byte, which shows that there is more.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxDocument+1), resp.Body}
	}
	return resp, err
}

// check returns an error if the guard refuses requests to u. Names pass; the address that
// they resolve to is checked at each connection.
func (g *guard) check(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http" || host == "" || u.User != nil || u.Opaque != "":
		return errors.New("is not an https URL")
	case g.trusted[oauthmeta.Origin(u)]:
		return nil
	case u.Scheme == "http" && !(g.loopback && isLoopback(host)):
		return errors.New("is not an https URL")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.checkIP(ip)
	}
	return nil
}

// checkText parses and checks a URL of a server.
func (g *guard) checkText(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is not a URL")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, g.check(u)
}

const maxURL = 2048

// checkAddress checks the address of a connection.
func (g *guard) checkAddress(address string) error {
	if at, err := netip.ParseAddrPort(address); err == nil {
		return g.checkIP(at.Addr())
	}
	return fmt.Errorf("%w: it has no address", errAddress)
}

func (g *guard) checkIP(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if g.loopback && ip.IsLoopback() || isPublic(ip) {
		return nil
	}
	return errAddress
}

// errAddress says that a server named an address in a private network.
var errAddress = errors.New("leads to an address that is not public")

// reservedNets are networks that are not part of the Internet, or that lead to other
// networks (the special-purpose registries of IANA).
var reservedNets = func() (nets []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20",
	} {
		nets = append(nets, netip.MustParsePrefix(text))
	}
	return nets
}()

// global6 contains all global unicast addresses of IPv6. The rest is reserved.
var global6 = netip.MustParsePrefix("2000::/3")

var nat64, sixToFour = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")

func isPublic(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
		return false
	}
	for _, n := range reservedNets {
		if n.Contains(ip) {
			return false
		}
	}
	b := ip.As16()
	switch { // addresses that embed an IPv4 address lead to it
	case nat64.Contains(ip):
		return isPublic(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToFour.Contains(ip):
		return isPublic(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return ip.Is4() || global6.Contains(ip)
}

// isLoopback reports whether a host of a URL names this machine. It resolves no names.
func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost.") || origin.IsLoopback(host)
}
