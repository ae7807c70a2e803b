package frontend

import (
	"crypto/rand"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
)

// modernPrefix begins the Key of each modern client. No session id begins so.
const modernPrefix = "modern "

// modernClient returns the client that sent a modern request. Such a client has no
// session, so its clientInfo, its address and its User-Agent tell it from the
// principal's other clients. A request without clientInfo counts as a separate client.
//
// Forwarding headers are not verified, but a client that forges them only makes
// itself another client of the same principal.
func (s *Server) modernClient(r *http.Request, principal *call.Principal, meta *requestMeta) *call.Client {
	info := meta.info.Raw()
	if len(info) == 0 {
		return newModernClient(rand.Text(), meta)
	}
	var memory [512]byte
	text := memory[:0]
	part := func(value string) { text = append(append(text, value...), 0) } // no part contains a zero
	part(principal.Profile)
	part(identityOf(principal))
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	part(host)
	for _, name := range [...]string{"User-Agent", "X-Forwarded-For", "Forwarded"} {
		for _, value := range r.Header[name] {
			part(value)
		}
		part("")
	}
	text = append(text, info...)
	return s.clients.get(maphash.Bytes(s.seed, text), text, meta)
}

// modernKey returns the Key of a modern client with this hash, which nobody outside can compute.
func modernKey(hash uint64) string {
	var text [len(modernPrefix) + 16]byte
	return string(strconv.AppendUint(append(text[:0], modernPrefix...), hash, 16))
}

// requestShare returns the share that a request's resources count for: that of the
// principal in all profiles, or if the principal is anonymous, of the address.
func (s *Server) requestShare(r *http.Request, principal *call.Principal) fairshare.Share {
	var hash uint64
	if !principal.IsAnonymous() {
		hash = maphash.String(s.seed, principal.Identity())
	} else if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		hash = s.addressHash(from.Addr())
	}
	return fairshare.ShareOf(hash)
}

// callShare returns the share that a call counts for, see [call.Call.ShareKey]: that of
// the principal in all profiles, or if the principal is anonymous, of the address. On loopback all
// clients have one address, so there each client has its own share. Loopback clients
// without clientInfo have one share together.
func (s *Server) callShare(remote string, principal *call.Principal, client *call.Client) uint64 {
	if !principal.IsAnonymous() {
		return maphash.String(s.seed, principal.Identity())
	}
	if from, err := netip.ParseAddrPort(remote); err == nil && !from.Addr().Unmap().IsLoopback() {
		return s.addressHash(from.Addr())
	}
	if client.Sessionless && client.Info == nil {
		return 0
	}
	return maphash.String(s.seed, client.Key)
}

// addressHash returns a hash of an IPv4 address, or of the network of an IPv6
// address: a client can use any number of addresses in its IPv6 network.
func (s *Server) addressHash(addr netip.Addr) uint64 {
	addr = addr.Unmap()
	text, significant := addr.As16(), 16
	if addr.Is6() {
		significant = 8
	}
	return maphash.Bytes(s.seed, text[:significant])
}

// identityOf returns the identity of a principal. It allocates nothing for the anonymous one.
func identityOf(principal *call.Principal) string {
	if principal.IsAnonymous() {
		return anonymousIdentity
	}
	return principal.Identity()
}

var anonymousIdentity = call.Anonymous.Identity()
