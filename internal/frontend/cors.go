package frontend

import (
	"net/http"
	"net/textproto"
	"strings"

	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// allowCORS lets a page of a configured origin read the response, and reports whether it
// does. Origins that are trusted for another reason do not need CORS.
func (s *settings) allowCORS(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	if !s.IsConfigured(origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", wire.HeaderSession+", "+wire.HeaderVersion+", Retry-After, WWW-Authenticate, "+requestid.Header)
	return true
}

// corsHeaders are the request headers that pages may send, in addition to those that
// mirror the parameters of a tool.
var corsHeaders = []string{
	"Accept", "Authorization", "Content-Type", "X-Api-Key", "Traceparent", "Tracestate", "Baggage",
	wire.HeaderSession, wire.HeaderVersion, wire.HeaderMethod, wire.HeaderName, wire.HeaderLastEvent, requestid.Header,
}

// preflight answers a preflight request of a browser.
func (s *settings) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Allow", "GET, POST, DELETE, OPTIONS")
	if s.allowCORS(w, r) && r.Header.Get("Access-Control-Request-Method") != "" {
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
	writeStatus(w, http.StatusNoContent)
}
