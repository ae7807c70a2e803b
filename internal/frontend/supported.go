package frontend

import (
	"net/http"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// supported are the revisions that clients are told, as JSON arrays.
type supported struct{ all, legacy, modern wire.Raw }

func newSupported() supported {
	legacy, modern := wire.LegacyRevisions(), wire.ModernRevisions()
	return supported{all: wire.Strings(append(modern, legacy...)), legacy: wire.Strings(legacy), modern: wire.Strings(modern)}
}

// serves reports whether a profile serves clients of an era.
func (s *Server) serves(profile string, era wire.Era) bool {
	only, limited := s.settings.Load().Eras[profile]
	return !limited || only == era
}

// supportedIn returns the revisions that a profile serves.
func (s *Server) supportedIn(profile string) wire.Raw {
	switch {
	case !s.serves(profile, wire.EraModern):
		return s.supported.legacy
	case !s.serves(profile, wire.EraLegacy):
		return s.supported.modern
	}
	return s.supported.all
}

// unsupportedRevision returns the error for a modern request of a revision that is unknown, that is not
// modern, or that the profile does not serve. A client of both eras continues with a revision that the error
// lists (2026-07-28, basic/lifecycle).
func (s *Server) unsupportedRevision(requested, profile string) *wire.Error {
	return wire.Errorf(wire.CodeUnsupportedRev, "unsupported protocol version %s", strconv.Quote(clipRevision(requested))).
		WithData(s.supportedData(requested, profile))
}

// unsupportedLegacy returns the error for a message of a legacy client in a profile that
// serves modern ones alone (2025-11-25, basic/lifecycle, "Error Handling").
func (s *Server) unsupportedLegacy(m *wire.Message, profile string) *wire.Error {
	requested, ok := wire.ValueOf(m.Params).Get("protocolVersion").Text()
	if !ok {
		requested = string(wire.LatestLegacy)
	}
	return wire.Errorf(wire.CodeInvalidParams, "Unsupported protocol version").WithData(s.supportedData(requested, profile))
}

func (s *Server) supportedData(requested, profile string) wire.Raw {
	data := append([]byte(`{"supported":`), s.supportedIn(profile)...)
	data = append(data, `,"requested":`...)
	data = wire.AppendString(data, clipRevision(requested))
	return append(data, '}')
}

// clipRevision bounds a revision that a client has sent.
func clipRevision(requested string) string {
	if len(requested) > 64 {
		return strings.ToValidUTF8(requested[:64], "")
	}
	return requested
}

// refuseLegacy answers a message of a legacy client in a profile that serves only modern clients. A client
// with a session has to begin a new one, and gets the reason then.
func (s *Server) refuseLegacy(w http.ResponseWriter, r *http.Request, principal *call.Principal, m *wire.Message) {
	if len(r.Header[wire.HeaderSession]) > 0 {
		s.rejectMessage(w, r, principal, m.ID, http.StatusNotFound, errNoSession)
		return
	}
	s.rejectMessage(w, r, principal, m.ID, http.StatusBadRequest, s.unsupportedLegacy(m, principal.Profile))
}
