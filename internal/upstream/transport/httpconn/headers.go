package httpconn

import (
	"maps"
	"net/http"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/http1"
	"mcpgateway/internal/requestid"
)

// Headers are the headers of a request: those that many requests share, and its own.
// A copy is independent of the original.
type Headers struct {
	shared http.Header // never changed
	// own holds the first of the request's own headers without an allocation, more the
	// others.
	own  [maxInline]headerField
	n    int // of own that are in use
	more []headerField
	// who is the principal of the request, nil for that of the session.
	who *call.Principal
	// request is the request id of the call that the request belongs to, "" for none.
	request string
	// trace is the trace context of the request, nil for none.
	trace *call.TraceContext
}

// maxInline is how many headers of its own a request has without an allocation: every
// modern request has two.
const maxInline = 2

// headerField is one header with its canonical name.
type headerField struct{ name, value string }

// newHeaders returns headers that many requests may share. h must not be changed
// afterwards.
func newHeaders(h http.Header) Headers { return Headers{shared: h} }

// Add adds a header by its canonical name.
func (h *Headers) Add(name, value string) {
	if h.n < maxInline {
		h.own[h.n] = headerField{name, value}
		h.n++
		return
	}
	h.more = append(slices.Clip(h.more), headerField{name, value}) // copies do not share memory
}

// ForCall returns the headers of a request that belongs to c, which may be nil.
func (h Headers) ForCall(c *call.Call) Headers {
	if c != nil {
		h.who, h.request = c.Principal, c.ID
		h.trace = c.TraceContext
	}
	return h
}

// fields returns the headers that requests with the same shared headers differ in. Configured headers of
// the same names win over them.
func (h *Headers) fields() (out [4]http1.Field, n int) {
	out[0] = http1.Field{Name: requestid.Header, Value: h.request}
	if h.trace == nil {
		return out, 1
	}
	out[1] = http1.Field{Name: "Traceparent", Value: h.trace.Traceparent}
	out[2] = http1.Field{Name: "Tracestate", Value: h.trace.Tracestate}
	out[3] = http1.Field{Name: "Baggage", Value: h.trace.Baggage}
	return out, 4
}

// withCredentials returns the headers with those of credentials, by their canonical
// names, in the place of configured ones. Reserved headers are left out.
func (h Headers) withCredentials(credentials http.Header) Headers {
	shared := h.shared
	for name, values := range credentials {
		if isReserved(name) {
			continue
		}
		if _, there := shared[name]; there {
			shared = maps.Clone(shared)
			delete(shared, name)
		}
		for _, v := range values {
			h.Add(name, v)
		}
	}
	h.shared = shared
	return h
}

// Shared returns the same headers for many requests, so that no request has to make a map.
// The principal, the request id and the trace context are not among them.
func (h Headers) Shared() Headers { return newHeaders(h.all(nil)) }

// all returns the headers in the form of net/http. values, which is empty, is memory
// for the values of the request's own headers.
func (h *Headers) all(values []string) http.Header {
	if h.n == 0 {
		return h.shared
	}
	all := make(http.Header, len(h.shared)+h.n+len(h.more))
	maps.Copy(all, h.shared)
	values = slices.Grow(values, h.n+len(h.more))
	for _, fields := range [][]headerField{h.own[:h.n], h.more} {
		for _, f := range fields {
			if before := all[f.name]; before != nil {
				all[f.name] = append(slices.Clip(before), f.value)
				continue
			}
			values = append(values, f.value)
			all[f.name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	return all
}
