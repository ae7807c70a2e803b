package upstream

import (
	"maps"
	"net/http"
	"slices"

	"mcpgateway/internal/call"
)

// headers are the headers of a request: those that many requests share, and its
// own. They are immutable.
type headers struct {
	shared http.Header
	own    []headerField
	// who is whose call the request belongs to, nil for that of whose session it is.
	who *call.Principal
}

// headerField is one header with its canonical name.
type headerField struct{ name, value string }

// forPrincipal returns the headers of a request that belongs to a call of who.
func (h headers) forPrincipal(who *call.Principal) headers {
	h.who = who
	return h
}

// forCall returns the headers of a request that belongs to c, which may be nil.
func (h headers) forCall(c *call.Call) headers {
	if c == nil {
		return h
	}
	return h.forPrincipal(c.Principal)
}

// with returns the headers with those that prove who calls, by their canonical
// names, in the place of configured ones. None of them can be reserved.
func (h headers) with(proof http.Header) headers {
	h.own = slices.Clip(h.own)
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
			h.own = append(h.own, headerField{name, v})
		}
	}
	h.shared = shared
	return h
}

// newHeaders returns headers that many requests may share. h must not be changed
// afterwards.
func newHeaders(h http.Header) headers { return headers{shared: h} }

// all returns the headers in the form of net/http.
func (h headers) all() http.Header {
	if len(h.own) == 0 {
		return h.shared
	}
	all := make(http.Header, len(h.shared)+len(h.own))
	maps.Copy(all, h.shared)
	values := make([]string, len(h.own))
	for i, f := range h.own {
		if before := all[f.name]; before != nil {
			all[f.name] = append(slices.Clip(before), f.value)
			continue
		}
		values[i] = f.value
		all[f.name] = values[i : i+1 : i+1]
	}
	return all
}
