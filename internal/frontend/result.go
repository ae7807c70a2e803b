package frontend

import (
	"strconv"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// modernResult returns a result with the members that modern revisions require:
// resultType, serverInfo in _meta, and ttlMs and cacheScope for methods whose results may
// be cached (2026-07-28, basic, "ResultType" and "_meta"; server/utilities/caching). The
// members that are added forbid caching. They are appended to end, with the brace that
// ends the result, and follow result, so that a large result is not copied.
//
// A result of a legacy upstream is always complete. Its resultType is removed if it
// says otherwise: the client would take the result for a round that has not passed the
// checks of the gateway.
func (s *Server) modernResult(end []byte, method string, res call.Result) (result, after []byte) {
	raw := res.Raw
	root := res.Value()
	if res.Page != nil || root.Kind() != '{' { // a page has all members; the conformance rules deal with what is not an object
		return raw, end
	}
	m := readResult(root)
	if m.incomplete && res.Revision.Era() == wire.EraLegacy {
		e := wire.NewEdit(raw)
		e.Remove(e.Root(), "resultType")
		return s.modernResult(end, method, call.Result{Raw: e.Bytes()})
	}
	if m.meta.Kind() == '{' && !m.meta.Get(wire.MetaServerInfo).Exists() {
		e := wire.NewEdit(raw)
		e.Add(m.meta, wire.MetaServerInfo, s.options.Info)
		raw = e.Bytes()
		root = wire.ValueOf(raw)
	}
	add := func(member string) {
		if !m.empty {
			end = append(end, ',')
		}
		m.empty = false
		end = append(end, member...)
	}
	if !m.resultType.Exists() {
		add(`"resultType":"complete"`)
	}
	if wire.MethodOf(method).Cacheable && (!m.resultType.Exists() || m.resultType.IsString("complete")) {
		if !m.ttlMs.Exists() {
			add(`"ttlMs":0`)
		}
		if !m.cacheScope.Exists() {
			add(`"cacheScope":"private"`)
		}
	}
	if !m.meta.Exists() {
		add(`"_meta":{`)
		end = append(end, s.serverInfo...)
		end = append(end, '}')
	}
	text := root.Raw()
	return text[:len(text)-1], append(end, '}')
}

// resultMembers are the members of a result that modernResult looks at.
type resultMembers struct {
	meta, resultType, ttlMs, cacheScope wire.Value
	empty                               bool // there are no members at all
	incomplete                          bool // a resultType is not "complete"
}

func readResult(root wire.Value) resultMembers {
	r := resultMembers{empty: true}
	for m := range root.Members() {
		r.empty = false
		switch {
		case m.Is("_meta"):
			r.meta = m.Value
		case m.Is("resultType"):
			r.resultType = m.Value
			r.incomplete = r.incomplete || !m.Value.IsString("complete")
		case m.Is("ttlMs"):
			r.ttlMs = m.Value
		case m.Is("cacheScope"):
			r.cacheScope = m.Value
		}
	}
	return r
}

// appendLegacy appends to dst a result without the members that only modern revisions have.
// A result of a legacy upstream that happens to have members of these names keeps them.
//
// The longest part of the result that stays as it is, the whole of it in most cases, is
// not appended: it belongs before dst[cut].
func appendLegacy(dst []byte, res call.Result) (out []byte, cut int, stays []byte) {
	if res.Revision.Era() != wire.EraModern {
		return dst, len(dst), res.Raw
	}
	e := wire.NewEdit(res.Raw)
	remove := []string{"resultType", "ttlMs", "cacheScope"}
	root := res.Value()
	meta := root.Get("_meta")
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
			remove = append(remove, "_meta")
		}
	}
	e.Remove(root, remove...)
	var few [8][]byte
	parts := e.Pieces(few[:0])
	for _, part := range parts {
		if len(part) > len(stays) {
			stays = part
		}
	}
	for _, part := range parts {
		if cut == 0 && len(part) == len(stays) {
			cut = len(dst)
			continue
		}
		dst = append(dst, part...)
	}
	return dst, cut, stays
}

// modernError returns an error in the form of modern revisions, which have no code for a
// resource that does not exist (2026-07-28, basic, "Error Codes").
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
