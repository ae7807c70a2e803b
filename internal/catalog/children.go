package catalog

import (
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/wire"
)

// Children returns one page of the listed resources directly below a public URI, as the
// result of resources/list for a client of the revision. It returns false if nothing is
// below the URI at any depth. The cursor is "" for the first page. The error is -32602 for
// a cursor that is not one of a list of resources.
//
// x:a/b and x:a/b/ are directly below x:a and x:a/, and x:a/b/c is below them. No URI is
// below itself.
func (v *View) Children(uri string, rev wire.Revision, cursor string, now time.Time) (wire.Raw, bool, *wire.Error) {
	at, err := v.position(call.Resource, cursor)
	if err != nil {
		return nil, false, err
	}
	var children []*Entry
	known, size, last, next := false, 0, 0, ""
	for i, e := range v.listed[call.Resource] {
		direct, below := isBelow(uri, e.Public)
		known = known || below
		if !direct || i < at {
			continue
		}
		size += len(e.Raw) + 1
		if n := len(children); n == v.table.opts.PageItems || n > 0 && size > v.table.opts.PageBytes {
			next = v.after(call.Resource, last).String()
			break
		}
		children, last = append(children, e), i
	}
	class := downlevel.ItemClassOf(rev)
	return v.encodeItems(call.Resource, class, v.fresh.ttl(now), children, next, nil).Raw, known, nil
}

// isBelow reports whether a URI is below another one, and whether directly.
func isBelow(parent, uri string) (direct, below bool) {
	rest, ok := strings.CutPrefix(uri, parent)
	if ok && !strings.HasSuffix(parent, "/") {
		rest, ok = strings.CutPrefix(rest, "/")
	}
	if !ok || rest == "" {
		return false, false
	}
	path := rest
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		path = rest[:i]
	}
	segment, more, _ := strings.Cut(path, "/")
	return segment != "" && more == "", segment != ""
}
