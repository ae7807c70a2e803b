package frontend

import (
	"net/http"

	"mcpgateway/internal/wire"
)

// requestMeta is the data about the sender in the _meta of a message, as modern revisions
// define it. All values are slices of the message.
type requestMeta struct {
	meta                               wire.Value // the whole of _meta
	before, after                      wire.Raw   // the text of the params around _meta
	version, capabilities, info, level wire.Value
	revision                           wire.Revision // version as text, "" if it is not a string
	others                             bool          // _meta has further members
}

func readMeta(m *wire.Message) requestMeta {
	var rm requestMeta
	if m.Params == nil {
		return rm
	}
	rm.meta, rm.before, rm.after = wire.ValueOf(m.Params).Cut("_meta")
	for mb := range rm.meta.Members() {
		switch {
		case mb.Is(wire.MetaProtocolVersion):
			rm.version = mb.Value
			rm.revision = revisionOf(mb.Value)
		case mb.Is(wire.MetaClientCapabilities):
			rm.capabilities = mb.Value
		case mb.Is(wire.MetaClientInfo):
			rm.info = mb.Value
		case mb.Is(wire.MetaLogLevel):
			rm.level = mb.Value
		default:
			rm.others = true
		}
	}
	return rm
}

// revisionOf returns the revision that a text names, known or not. It allocates nothing
// for the latest revision.
func revisionOf(v wire.Value) wire.Revision {
	if v.IsString(string(wire.LatestModern)) {
		return wire.LatestModern
	}
	return wire.Revision(v.Str())
}

// isModern reports whether _meta has members that only modern requests have.
func (rm *requestMeta) isModern() bool { return rm.version.Exists() || rm.capabilities.Exists() }

// strip returns the params without the metadata that have fields of their own in
// call.Call. The params are a copy if _meta exists, as it does in each valid modern
// request.
func (rm *requestMeta) strip(params wire.Raw) wire.Raw {
	if !rm.meta.Exists() {
		return params
	}
	if !rm.others {
		return append(append(make(wire.Raw, 0, len(rm.before)+len(rm.after)), rm.before...), rm.after...)
	}
	e := wire.NewEdit(params)
	e.Remove(rm.meta, wire.MetaProtocolVersion, wire.MetaClientCapabilities, wire.MetaClientInfo, wire.MetaLogLevel)
	return e.Bytes()
}

// eraOf returns the era of a message, EraLegacy or EraModern. Modern means that the rules
// of modern revisions apply to the message, not that it follows them.
//
// An initialize that opens a session is legacy, see beginsSession. Otherwise a message
// with modern metadata is modern, one with a session or a legacy version header is
// legacy, and one with another version header is modern. A message without a version
// header is from a client that is older than the header.
func eraOf(r *http.Request, m *wire.Message, meta *requestMeta) wire.Era {
	version, _ := header(r, wire.HeaderVersion)
	switch {
	case beginsSession(m, meta):
		return wire.EraLegacy
	case meta.isModern():
		return wire.EraModern
	case len(r.Header[wire.HeaderSession]) > 0, version == "", wire.Revision(version).Era() == wire.EraLegacy:
		return wire.EraLegacy
	default:
		return wire.EraModern
	}
}

// header returns the value of a header with a canonical name, or "" if it is absent. It
// reports false if there are several: two readers of such a request could disagree.
func header(r *http.Request, name string) (string, bool) {
	switch values := r.Header[name]; len(values) {
	case 0:
		return "", true
	case 1:
		return values[0], true
	default:
		return values[0], false
	}
}

// checkMeta checks the revision and the metadata of a modern request over HTTP
// (2026-07-28, basic, "_meta", and basic/transports/streamable-http, "Protocol Version
// Header"). All errors have the status 400.
func (s *Server) checkMeta(r *http.Request, meta *requestMeta, profile string) *wire.Error {
	sent, single := header(r, wire.HeaderVersion)
	if sent == "" || !single {
		return wire.Errorf(wire.CodeHeaderMismatch, "header mismatch: the MCP-Protocol-Version header must be sent once")
	}
	switch isText := meta.version.Kind() == '"'; {
	case !isText && wire.Revision(sent).Era() == wire.EraUnknown:
		return s.unsupportedRevision(sent, profile)
	case isText && string(meta.revision) != sent:
		return wire.Errorf(wire.CodeHeaderMismatch, "header mismatch: the MCP-Protocol-Version header differs from %q in _meta", wire.MetaProtocolVersion)
	}
	return s.checkMetaInBody(meta, profile)
}

// checkMetaInBody checks the metadata of a modern request by the rules that do not depend
// on the transport (2026-07-28, basic, "_meta").
func (s *Server) checkMetaInBody(meta *requestMeta, profile string) *wire.Error {
	switch {
	case meta.version.Kind() != '"':
		return wire.Errorf(wire.CodeInvalidParams, "invalid params: _meta lacks the string %q", wire.MetaProtocolVersion)
	case meta.revision.Era() != wire.EraModern || !s.serves(profile, wire.EraModern):
		return s.unsupportedRevision(string(meta.revision), profile)
	case meta.capabilities.Kind() != '{':
		return wire.Errorf(wire.CodeInvalidParams, "invalid params: _meta lacks the object %q", wire.MetaClientCapabilities)
	case meta.info.Exists() && meta.info.Kind() != '{':
		return wire.Errorf(wire.CodeInvalidParams, "invalid params: %q in _meta must be an object", wire.MetaClientInfo)
	case meta.level.Exists() && levelOf(meta.level) == wire.LevelNone:
		return wire.Errorf(wire.CodeInvalidParams, "invalid params: %q in _meta must be one of %s", wire.MetaLogLevel, levelNames)
	}
	return nil
}

// checkHeaders checks that headers of a modern request agree with its body (2026-07-28,
// basic/transports/streamable-http, "Server Validation").
func (s *Server) checkHeaders(r *http.Request, x *exchange) *wire.Error {
	mismatch := func(format string, args ...any) *wire.Error {
		return wire.Errorf(wire.CodeHeaderMismatch, "header mismatch: "+format, args...)
	}
	c := &x.call
	switch method, single := header(r, wire.HeaderMethod); {
	case method == "" || !single:
		return mismatch("the Mcp-Method header must be sent once")
	case method != c.Method:
		return mismatch("the Mcp-Method header differs from the method")
	}
	member, required := wire.MethodOf(c.Method).Header()
	if member == "" {
		return nil
	}
	params := wire.ValueOf(c.Params)
	item := params.Get(member)
	isName := item.Kind() == '"'
	sent, single := header(r, wire.HeaderName)
	name, ok := wire.DecodeHeader(sent)
	if sent != "" || required {
		switch {
		case sent == "" && !isName:
			// The params are invalid, which the handler will report.
		case sent == "" || !single:
			return mismatch("the Mcp-Name header must be sent once")
		case !ok:
			return mismatch("the Mcp-Name header is malformed")
		case isName && !item.IsString(name), !isName && name != "":
			return mismatch("the Mcp-Name header differs from params.%s", member)
		}
	}
	if c.Method != wire.MethodToolsCall {
		return nil
	}
	mirrored := s.options.HeaderParams(c.Principal, c.Client, name)
	if mirrored == nil {
		return nil
	}
	values := func(name string) []string { return r.Header[name] }
	if err := wire.CheckHeaderParams(mirrored, params.Get("arguments").Raw(), values); err != nil {
		return mismatch("%s", err)
	}
	return nil
}

// levelNames lists the valid levels, for errors.
const levelNames = "debug, info, notice, warning, error, critical, alert, emergency"

// levelOf returns the level that v names, or LevelNone.
func levelOf(v wire.Value) wire.Level {
	l, _ := wire.ParseLevel(v.Str())
	return l
}
