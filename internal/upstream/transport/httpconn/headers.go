package httpconn

import (
	"maps"
	"net/http"
	"slices"

	"mcpgateway/internal/call"
)

// Headers are the headers of a request: those that many requests share, and its
// own. They are immutable.
type Headers struct {
	shared http.Header
	Own    []HeaderField
	// who is whose call the request belongs to, nil for that of whose session it is.
	who *call.Principal
}

// HeaderField is one header with its canonical name.
type HeaderField struct{ Name, Value string }

// forPrincipal returns the headers of a request that belongs to a call of who.
func (h Headers) forPrincipal(who *call.Principal) Headers {
	h.who = who
	return h
}

// ForCall returns the headers of a request that belongs to c, which may be nil.
func (h Headers) ForCall(c *call.Call) Headers {
	if c == nil {
		return h
	}
	return h.forPrincipal(c.Principal)
}

// with returns the headers with those that prove who calls, by their canonical
// names, in the place of configured ones. None of them can be reserved.
func (h Headers) with(proof http.Header) Headers {
	h.Own = slices.Clip(h.Own)
	shared := h.shared
	for name, values := range proof {
		if isReserved(name) {
			continue
		}
		if _, there := shared[name]; there {
			shared = maps.Clone(shared)
			delete(shared, name)
		}
		for _, v := range values {
			h.Own = append(h.Own, HeaderField{name, v})
		}
	}
	h.shared = shared
	return h
}

// newHeaders returns headers that many requests may share. h must not be changed
// afterwards.
func newHeaders(h http.Header) Headers { return Headers{shared: h} }

// all returns the headers in the form of net/http.
func (h Headers) all() http.Header {
	if len(h.Own) == 0 {
		return h.shared
	}
	all := make(http.Header, len(h.shared)+len(h.Own))
	maps.Copy(all, h.shared)
	values := make([]string, len(h.Own))
	for i, f := range h.Own {
		if before := all[f.Name]; before != nil {
			all[f.Name] = append(slices.Clip(before), f.Value)
			continue
		}
		values[i] = f.Value
		all[f.Name] = values[i : i+1 : i+1]
	}
	return all
}
