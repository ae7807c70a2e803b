package frontend

import (
	"strconv"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// appendModern appends a result with what modern revisions demand of every
// result where it is absent; all else stays as it is: resultType, serverInfo in
// _meta, and for what clients may cache ttlMs and cacheScope (2026-07-28, basic,
// "ResultType" and "_meta"; server/utilities/caching). Without better knowledge
// nothing may be cached.
//
// Another resultType than complete means nothing in the revision of a legacy upstream:
// its result is complete. A client would take it for a question that nobody has looked at.
func (s *Server) appendModern(dst []byte, method string, res call.Result) []byte {
	raw := res.Raw
	root := wire.ValueOf(raw)
	if root.Kind() != '{' {
		return append(dst, raw...) // no result object; which fault that is is not decided here
	}
	var meta, kind, ttl, scope wire.Value
	empty, incomplete := true, false
	for m := range root.Members() {
		empty = false
		switch {
		case m.Is("_meta"):
			meta = m.Value
		case m.Is("resultType"):
			kind = m.Value
			incomplete = incomplete || !kind.IsString("complete")
		case m.Is("ttlMs"):
			ttl = m.Value
		case m.Is("cacheScope"):
			scope = m.Value
		}
	}
	if incomplete && res.Revision.Era() == wire.EraLegacy {
		e := wire.NewEdit(raw)
		e.Remove(e.Root(), "resultType")
		return s.appendModern(dst, method, call.Result{Raw: e.Bytes()})
	}
	if meta.Kind() == '{' && !meta.Get(wire.MetaServerInfo).Exists() {
		e := wire.NewEdit(raw)
		e.Add(meta, wire.MetaServerInfo, s.options.Info)
		raw = e.Bytes()
		root = wire.ValueOf(raw)
	}
	text := root.Raw()
	dst = append(dst, text[:len(text)-1]...)
	add := func(member string) {
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(dst, member...)
	}
	if !kind.Exists() {
		add(`"resultType":"complete"`)
	}
	if wire.MethodOf(method).Cacheable && (!kind.Exists() || kind.IsString("complete")) {
		if !ttl.Exists() {
			add(`"ttlMs":0`)
		}
		if !scope.Exists() {
			add(`"cacheScope":"private"`)
		}
	}
	if !meta.Exists() {
		add(`"_meta":{`)
		dst = append(dst, s.serverInfo...)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// legacyResult returns a result without what only modern revisions know. A
// result of a legacy upstream that happens to use such names keeps them.
func legacyResult(res call.Result) wire.Raw {
	if res.Revision.Era() != wire.EraModern {
		return res.Raw
	}
	e := wire.NewEdit(res.Raw)
	gone := []string{"resultType", "ttlMs", "cacheScope"}
	meta := e.Root().Get("_meta")
	if meta.Get(wire.MetaServerInfo).Exists() {
		others := 0
		for m := range meta.Members() {
			if !m.Is(wire.MetaServerInfo) {
				others++
			}
		}
		if others > 0 {
			e.Remove(meta, wire.MetaServerInfo)
		} else {
			gone = append(gone, "_meta")
		}
	}
	e.Remove(e.Root(), gone...)
	return e.Bytes()
}

// modernError returns an error in the way of modern revisions, which have no
// code of its own for a resource that is not there (2026-07-28, basic, "Error
// Codes").
func modernError(e *wire.Error) *wire.Error {
	if e.Code != wire.CodeResourceNotFound {
		return e
	}
	c := *e
	c.Code = wire.CodeInvalidParams
	if c.Raw != nil {
		c.Raw = wire.SetMember(c.Raw, "code", wire.Raw(strconv.Itoa(wire.CodeInvalidParams)))
	}
	return &c
}
