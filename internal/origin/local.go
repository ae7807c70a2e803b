package origin

import (
	"net/http"
	"strings"
)

// forwardingHeaders are headers that proxies add to the requests that they forward.
var forwardingHeaders = map[string]bool{
	"Forwarded":                true,
	"Via":                      true,
	"X-Real-Ip":                true,
	"X-Client-Ip":              true,
	"X-Cluster-Client-Ip":      true,
	"X-Original-Forwarded-For": true,
	"X-Envoy-External-Address": true,
	"True-Client-Ip":           true,
	"Cf-Connecting-Ip":         true,
	"Fastly-Client-Ip":         true,
}

// IsLocal reports whether a program on this machine sent the request itself: it came
// from a loopback address, and no header says that a proxy forwarded it. Behind a proxy
// on this machine every request comes from loopback. A proxy that adds no such header
// cannot be distinguished from a local program.
func IsLocal(r *http.Request) bool { return IsLoopbackHost(r.RemoteAddr) && !isForwarded(r.Header) }

func isForwarded(h http.Header) bool {
	for name := range h {
		if forwardingHeaders[name] || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}
