package upstream

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"mcpgateway/internal/call"
)

// headers are those of a request: what many requests have in common, and what is
// its own. They are immutable.
type headers struct {
	shared http.Header
	lines  []byte // shared as it stands in a request, every line with CRLF before it
	err    error  // why shared cannot be sent
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
	if len(shared) < len(h.shared) {
		fewer := newHeaders(shared)
		h.shared, h.lines, h.err = fewer.shared, fewer.lines, fewer.err
	}
	return h
}

// newHeaders returns headers that many requests may share. Nobody may change h
// any more.
func newHeaders(h http.Header) headers {
	hs := headers{shared: h}
	for name, values := range h {
		for _, v := range values {
			if hs.lines, hs.err = appendField(hs.lines, name, v); hs.err != nil {
				return hs
			}
		}
	}
	return hs
}

// all returns the headers in the form of net/http.
func (h headers) all() http.Header {
	if len(h.own) == 0 {
		return h.shared
	}
	all := maps.Clone(h.shared)
	for _, f := range h.own {
		all[f.name] = append(all[f.name], f.value)
	}
	return all
}

// append appends the headers as they stand in a request, every line with CRLF
// before it. The error names one that would not stay a line.
func (h headers) append(dst []byte) ([]byte, error) {
	if h.err != nil {
		return dst, h.err
	}
	dst = append(dst, h.lines...)
	for _, f := range h.own {
		var err error
		if dst, err = appendField(dst, f.name, f.value); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func appendField(dst []byte, name, value string) ([]byte, error) {
	if !isToken(name) || !isFieldValue(value) {
		return dst, fmt.Errorf("the header %q cannot be sent", name)
	}
	dst = append(dst, "\r\n"...)
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	return append(dst, value...), nil
}
