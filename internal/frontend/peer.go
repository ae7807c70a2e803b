package frontend

import (
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// keyOfModern returns the Key of the client that sent a modern request. Such a
// client has no session, so nothing proves that two requests come from one: what
// it says of itself, from where and by which program tells those of one principal
// apart. Two programs, or two machines, are two clients then. "" means that
// nothing tells: a request without clientInfo stands for itself alone.
//
// Where nobody proves who they are, the same program behind one address is one
// client; what proxies say of the address counts, for it can only tell more
// clients apart.
func (s *Server) keyOfModern(r *http.Request, who *call.Principal, info wire.Raw) string {
	if len(info) == 0 {
		return ""
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	part := func(text string) {
		h.WriteString(text)
		h.WriteByte(0) // which none of them holds
	}
	part(keyOf(who))
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
	h.Write(info)
	var text [len(modernPrefix) + 16]byte
	return string(strconv.AppendUint(append(text[:0], modernPrefix...), h.Sum64(), 16))
}

// shareOf returns whose share a call takes, see [call.Call.Owner], of a client at
// an address: the principal; where nobody proves who they are the address, or of
// IPv6 the network; and on this machine, where all have one address, the client.
// One there that does not say what it is shares with others that do not.
func (s *Server) shareOf(remote string, who *call.Principal, client *call.Client) uint64 {
	if key := keyOf(who); key != anonymousKey {
		return maphash.String(s.seed, key)
	}
	if from, err := netip.ParseAddrPort(remote); err == nil && !from.Addr().Unmap().IsLoopback() {
		return s.hashOf(from.Addr())
	}
	if client.Sessionless && client.Info == nil {
		return 0
	}
	return maphash.String(s.seed, client.Key)
}

// hashOf returns a number for an address. Of an IPv6 address the network counts: a
// client has as many addresses there as it likes.
func (s *Server) hashOf(addr netip.Addr) uint64 {
	addr = addr.Unmap()
	text, significant := addr.As16(), 16
	if addr.Is6() {
		significant = 8
	}
	return maphash.Bytes(s.seed, text[:significant])
}

// modernPrefix begins the Keys of modern clients: no session has such an id.
const modernPrefix = "modern "
