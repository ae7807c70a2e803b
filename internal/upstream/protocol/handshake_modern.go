package protocol

import (
	"fmt"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Identity is how the gateway introduces itself to a server.
type Identity struct {
	info         wire.Raw // an Implementation object
	capabilities wire.Raw // see SessionOwner.Capabilities
	via          string   // see MetaVia; "": nothing is said
}

// NewIdentity returns the Identity of conversations with this configuration.
func NewIdentity(c *Config) Identity {
	doc := wire.SetMember(wire.Raw(`{}`), "name", wire.String(c.Info.Name))
	doc = wire.SetMember(doc, "version", wire.String(c.Info.Version))
	return Identity{info: doc, capabilities: c.Owner.Capabilities(), via: c.Loops.Via()}
}

// Params returns the params that the server gets for a call: with the gateway's progress
// token in the place of the client's, and for modern revisions with the metadata of every
// request (2026-07-28, basic, "_meta"). The result is nil if there are no params.
func (s *Identity) Params(rev wire.Revision, f *PendingCall) wire.Raw {
	c, meta := f.Call, f.meta
	token := meta.Get(wire.MetaProgressToken)
	if rev.Era() != wire.EraModern {
		if !token.Exists() {
			return c.Params
		}
		e := wire.NewEdit(c.Params)
		e.Replace(token, wire.Raw(f.ID.String()))
		return e.Bytes()
	}
	doc := c.Params
	if doc == nil {
		doc = wire.Raw(`{}`)
	}
	if !meta.Exists() {
		return s.withMeta(doc, rev, c)
	}
	e := wire.NewEdit(doc)
	if token.Exists() {
		e.Replace(token, wire.Raw(f.ID.String()))
	}
	own := s.metaOf(c).append(nil, rev, c.LogLevel)
	if meta.Kind() != '{' {
		e.Set(e.Root(), "_meta", own)
		return e.Bytes()
	}
	for m := range wire.ValueOf(own).Members() {
		e.Set(meta, m.Key.Str(), m.Value.Raw())
	}
	return e.Bytes()
}

// withMeta returns params, which have no _meta, with the metadata of a modern request. It
// returns params that are not an object as they are.
func (s *Identity) withMeta(params wire.Raw, rev wire.Revision, c *call.Call) wire.Raw {
	root := wire.ValueOf(params)
	if root.Kind() != '{' {
		return params
	}
	text, meta := root.Raw(), s.metaOf(c)
	out := append(make([]byte, 0, len(text)+len(meta.info)+len(meta.capabilities)+maxMetaNames), text[:len(text)-1]...)
	for range root.Members() {
		out = append(out, ',')
		break
	}
	return append(meta.append(append(out, `"_meta":`...), rev, c.LogLevel), '}')
}

// maxMetaNames bounds what the metadata of a request adds to its params, beside the two values of
// clientMeta.
const maxMetaNames = len(`,"_meta":{"`+wire.MetaProtocolVersion+`":"2026-07-28","`+wire.MetaClientInfo+`":,"`+wire.MetaClientCapabilities+`":,"`+
	wire.MetaLogLevel+`":"emergency"}`) + 1

// clientMeta is the data about the client in the metadata of a request.
type clientMeta struct{ info, capabilities wire.Raw }

// metaOf returns what the metadata of a call says about its client, which is the gateway for calls
// of its own.
func (s *Identity) metaOf(c *call.Call) clientMeta {
	m := clientMeta{s.info, s.capabilities}
	if c.Client == nil {
		return m
	}
	m.capabilities = CallCapabilities(c.Client)
	if c.Client.Info != nil {
		m.info = c.Client.Info
	}
	return m
}

// append appends the metadata of a modern request, which is an object.
func (m clientMeta) append(out []byte, rev wire.Revision, level wire.Level) wire.Raw {
	out = append(out, `{"`+wire.MetaProtocolVersion+`":"`...)
	out = append(out, rev...)
	out = append(out, `","`+wire.MetaClientInfo+`":`...)
	out = append(out, m.info...)
	out = append(out, `,"`+wire.MetaClientCapabilities+`":`...)
	out = append(out, m.capabilities...)
	if level != wire.LevelNone {
		out = append(out, `,"`+wire.MetaLogLevel+`":"`...)
		out = append(out, level.String()...)
		out = append(out, '"')
	}
	return append(out, '}')
}

// DiscoverCall returns the request for server/discover.
func (s *Identity) DiscoverCall() *call.Call {
	c := &call.Call{Method: wire.MethodDiscover, Back: NoClient{}}
	if s.via != "" {
		c.Params = s.withVia(wire.Raw(`{}`))
	}
	return c
}

// withVia returns the params of a handshake with the id of this gateway.
func (s *Identity) withVia(params wire.Raw) wire.Raw {
	if s.via == "" {
		return params
	}
	return wire.SetMember(params, "_meta", wire.SetMember(wire.Raw(`{}`), MetaVia, wire.String(s.via)))
}

// ReadDiscover reads the result of server/discover. It returns all revisions that the
// server lists, and leaves Hello.Revision empty. The error says how the result is
// malformed.
func ReadDiscover(result wire.Raw) (Hello, []wire.Revision, error) {
	root := wire.ValueOf(result)
	versions := root.Get("supportedVersions")
	if versions.Kind() != '[' {
		return Hello{}, nil, fmt.Errorf("the result of server/discover has no array supportedVersions")
	}
	h := readHello(root)
	h.Info = object(root.Get("_meta", wire.MetaServerInfo))
	return h, revisions(versions), nil
}

// JudgeDiscover reads the response to server/discover (2026-07-28,
// basic/transports/stdio, "Backward Compatibility"). h.Revision is the newest common
// modern revision, "" if there is none. legacy says that the server may answer
// initialize. The error means that the server speaks no revision that the gateway knows,
// or refused for another reason.
func JudgeDiscover(m wire.Message) (h Hello, legacy bool, err error) {
	if m.Error == nil {
		h, listed, err := ReadDiscover(m.Result)
		if err != nil {
			return Hello{}, true, nil // some old server's answer to anything
		}
		h.Revision = Newest(wire.EraModern, listed)
		legacy = Newest(wire.EraLegacy, listed) != ""
		if h.Revision == "" && !legacy {
			return Hello{}, false, UnknownRevisions(listed)
		}
		return h, legacy, nil
	}
	if !wire.IsModernCode(m.Error.Code) {
		return Hello{}, true, nil
	}
	listed := SupportedBy(m.Error)
	switch {
	case Newest(wire.EraLegacy, listed) != "":
		return Hello{}, true, nil
	case len(listed) > 0 && Newest(wire.EraModern, listed) == "":
		return Hello{}, false, UnknownRevisions(listed)
	}
	return Hello{}, false, fmt.Errorf("the server refused server/discover: %w", m.Error)
}

// UnknownRevisions returns the error about a server that speaks only revisions that the
// gateway does not know.
func UnknownRevisions(listed []wire.Revision) error {
	listed = listed[:min(len(listed), 10)]
	known := append(wire.ModernRevisions(), wire.LegacyRevisions()...)
	return fmt.Errorf("the server speaks the revisions %.40q; the gateway speaks %q", listed, known)
}

// SupportedBy returns the revisions that an UnsupportedProtocolVersionError
// lists, nil for every other error.
func SupportedBy(err *wire.Error) []wire.Revision {
	if err.Code != wire.CodeUnsupportedRev {
		return nil
	}
	return revisions(wire.ValueOf(err.Data).Get("supported"))
}

// Newest returns the newest listed revision of an era, "" if none is listed.
func Newest(era wire.Era, listed []wire.Revision) wire.Revision {
	known := wire.LegacyRevisions()
	if era == wire.EraModern {
		known = wire.ModernRevisions()
	}
	for _, r := range known {
		if slices.Contains(listed, r) {
			return r
		}
	}
	return ""
}

// SubscriptionOf returns the id of the subscription that the params of a notification
// name, the zero ID if they name none.
func SubscriptionOf(params wire.Raw) wire.ID {
	return wire.IDOf(string(wire.ValueOf(params).Get("_meta", wire.MetaSubscriptionID).Raw()))
}

// WithoutSubscription returns the params of a notification without the id of the
// subscription, which clients do not know.
func WithoutSubscription(params wire.Raw) wire.Raw {
	e := wire.NewEdit(params)
	meta := e.Root().Get("_meta")
	if !meta.Get(wire.MetaSubscriptionID).Exists() {
		return params
	}
	members := 0
	for range meta.Members() {
		members++
	}
	if members == 1 {
		e.Remove(e.Root(), "_meta")
	} else {
		e.Remove(meta, wire.MetaSubscriptionID)
	}
	return e.Bytes()
}

// revisions returns the strings in an array of revisions.
func revisions(v wire.Value) []wire.Revision {
	var out []wire.Revision
	for el := range v.Elements() {
		if s, ok := el.Text(); ok {
			out = append(out, wire.Revision(s))
		}
	}
	return out
}

// object returns the text of v when it is an object, else nil.
func object(v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		return nil
	}
	return v.Raw()
}
