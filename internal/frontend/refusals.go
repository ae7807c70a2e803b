package frontend

import (
	"errors"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

// Reasons for which requests are refused, as values of the metric's label.
const (
	refusedCredentials = "proof"
	refusedEndpoint    = "endpoint" // it is not served to the sender
	refusedOrigin      = "origin_or_host"
	refusedSession     = "session"
	refusedMethod      = "http_method"
	refusedAccept      = "accept"
	refusedSize        = "size"
	refusedContent     = "content_type"
	refusedShare       = "share" // the client uses as much as one client may
	refusedFull        = "full"  // a limit for all clients is reached
	refusedDraining    = "draining"
	refusedParse       = "parse"
	refusedHeaders     = "headers" // they contradict the body
	refusedRevision    = "revision"
	refusedInvalid     = "invalid" // any other violation of the protocol
)

// reasonOf returns the reason that belongs to a status and an error code.
func reasonOf(status int, code int64) string {
	switch status {
	case http.StatusUnauthorized:
		return refusedCredentials
	case http.StatusForbidden:
		return refusedOrigin
	case http.StatusNotFound, http.StatusGone:
		return refusedSession
	case http.StatusMethodNotAllowed:
		return refusedMethod
	case http.StatusNotAcceptable:
		return refusedAccept
	case http.StatusRequestEntityTooLarge:
		return refusedSize
	case http.StatusUnsupportedMediaType:
		return refusedContent
	case http.StatusTooManyRequests:
		return refusedShare
	case http.StatusServiceUnavailable:
		return refusedFull
	}
	switch code {
	case wire.CodeParse:
		return refusedParse
	case wire.CodeHeaderMismatch:
		return refusedHeaders
	case wire.CodeUnsupportedRev:
		return refusedRevision
	}
	return refusedInvalid
}

// countRefused counts and logs a refused request. The fields must not contain anything
// of the message. The lines with each reason have a rate limit of their own.
func (s *Server) countRefused(level zapcore.Level, what string, w http.ResponseWriter, r *http.Request, status int, reason string, fields ...zap.Field) {
	s.countRefusedIn(level, what, reason, w, r, status, reason, fields...)
}

// drainingStream is the category of refused streams while the server drains. Clients ask for theirs again each second.
const drainingStream = refusedDraining + " stream"

// countRefusedIn is countRefused with the category of the line, of which there are few. A status of 0 is not known.
func (s *Server) countRefusedIn(level zapcore.Level, what, category string, w http.ResponseWriter, r *http.Request, status int, reason string, fields ...zap.Field) {
	s.options.Metrics.Refused.WithLabelValues(reason).Inc()
	log := s.ratelog
	if category == drainingStream {
		log = s.sums
	}
	answer := zap.Skip()
	if status != 0 {
		answer = zap.Int("status", status)
	}
	log.LogCategory(level, what, category, append(fields, answer, zap.String("kind", reason),
		zap.String("http_method", clip(r.Method)), zap.String("remote", r.RemoteAddr), zap.String("request", requestid.Of(w)))...)
}

// countRefusedID counts and logs a request whose session id or event id is refused. It does
// not log the id.
func (s *Server) countRefusedID(what string, w http.ResponseWriter, r *http.Request, principal *call.Principal, status int, reason error) {
	s.countRefused(zapcore.WarnLevel, what, w, r, status, reasonOf(status, 0),
		zap.String("principal", principal.Subject), ratelog.Profile(principal.Profile), zap.NamedError("reason", reason))
}

// refuseUnauthenticated refuses a request whose sender could not be authenticated, or may
// not use the endpoint.
func (s *Server) refuseUnauthenticated(w http.ResponseWriter, r *http.Request, err error) {
	if none := (*NoEndpoint)(nil); errors.As(err, &none) {
		s.refuseEndpoint(w, r, none)
		return
	}
	challenge, f := "Bearer", &refusal{status: http.StatusUnauthorized, reason: "authentication is required"}
	if d := (Denial)(nil); errors.As(err, &d) {
		challenge, f.status, f.reason = d.Challenge(), d.Status(), d.Public()
	}
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	s.countUnauthenticated(w, r, f.status, err)
	s.answerRefused(w, f)
}

func (s *Server) countUnauthenticated(w http.ResponseWriter, r *http.Request, status int, err error, fields ...zap.Field) {
	level, category, why := zapcore.InfoLevel, refusedCredentials, zap.Skip()
	if d := (Denial)(nil); errors.As(err, &d) {
		level, category, why = d.Log()
	}
	s.countRefusedIn(level, "authentication failed", category, w, r, status, refusedCredentials, append(fields, why)...)
}

// RefusedOnPage counts and logs a request for a page for people that had credentials with which Options.Authenticate
// would have returned this error. The caller answers it, so the line has the path and no status.
func (s *Server) RefusedOnPage(w http.ResponseWriter, r *http.Request, err error) {
	if none := (*NoEndpoint)(nil); errors.As(err, &none) {
		s.countNoEndpoint(w, r, 0, none)
		return
	}
	s.countUnauthenticated(w, r, 0, err, pathOf(r))
}

// refuseEndpoint answers a request to an endpoint that does not exist for its sender. The
// answer must not differ from that for any other path.
func (s *Server) refuseEndpoint(w http.ResponseWriter, r *http.Request, none *NoEndpoint) {
	s.countNoEndpoint(w, r, http.StatusNotFound, none)
	for name := range w.Header() {
		if name != requestid.Header {
			w.Header().Del(name)
		}
	}
	none.Answer(w, r)
}

func (s *Server) countNoEndpoint(w http.ResponseWriter, r *http.Request, status int, none *NoEndpoint) {
	category, principal := refusedEndpoint, zap.Skip()
	if none.Principal != "" { // a scan of paths by strangers must not hide it
		category, principal = refusedEndpoint+" known", zap.String("principal", none.Principal)
	}
	s.countRefusedIn(zapcore.InfoLevel, "request refused", category, w, r, status, refusedEndpoint, zap.String("reason", none.Reason), pathOf(r), principal)
}

// pathOf returns the field with the path of a request.
func pathOf(r *http.Request) zap.Field {
	return zap.String("path", clip(plaintext.URLPath(r.URL.EscapedPath())))
}

// UnknownPath counts and logs a request for a path at which nothing is served. The caller answers it.
func (s *Server) UnknownPath(w http.ResponseWriter, r *http.Request) {
	s.countRefused(zapcore.InfoLevel, "request refused", w, r, http.StatusNotFound, refusedEndpoint,
		zap.String("reason", "nothing is served at this path"), pathOf(r))
}

// LargeHeader gives an id to a request that the HTTP server refuses because its header is too large, and counts and logs it.
func (s *Server) LargeHeader(w http.ResponseWriter, r *http.Request) {
	requestid.Set(w, r)
	s.countRefused(zapcore.InfoLevel, "request refused", w, r, http.StatusRequestHeaderFieldsTooLarge, refusedSize, zap.String("reason", "the header is too large"))
}

// refuse answers a request by an HTTP status, and counts and logs it. The principal is nil
// before the sender is authenticated.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, principal *call.Principal, f *refusal, fields ...zap.Field) {
	reason, fields := reasonOf(f.status, 0), append(fields, zap.String("reason", f.reason))
	if principal != nil {
		fields = append(fields, zap.String("principal", principal.Subject))
	}
	switch {
	case f.isBusy():
		s.countRefused(zapcore.WarnLevel, "requests are refused for now: "+f.reason, w, r, f.status, reason, fields...)
	case f.reason == errStopped.Error():
		s.countRefusedIn(zapcore.InfoLevel, "request refused", drainingStream, w, r, f.status, refusedDraining, fields...)
	default:
		s.countRefused(zapcore.InfoLevel, "request refused", w, r, f.status, reason, fields...)
	}
	s.answerRefused(w, f)
}

// answerRefused answers a request by an HTTP status. The body is a JSON-RPC error, without
// an id if none is known, as the specification allows.
func (s *Server) answerRefused(w http.ResponseWriter, f *refusal) {
	code := int64(wire.CodeInvalidRequest)
	if f == errEncoded {
		w.Header()["Accept-Encoding"] = identity // the accepted encoding (RFC 9110, section 15.5.16)
	}
	switch f.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable: // a limit is reached; the request itself is valid
		w.Header().Set("Retry-After", retryAfter)
		code = wire.CodeInternal
	}
	s.writeJSON(w, 0, f.status, pieces{errorResponse(f.id, requestid.Of(w), &wire.Error{Code: code, Message: f.reason})})
}

// refuseWithoutSession refuses a GET or DELETE without a session: only legacy sessions
// have these methods.
func (s *Server) refuseWithoutSession(w http.ResponseWriter, r *http.Request, principal *call.Principal) {
	w.Header().Set("Allow", "POST")
	s.refuse(w, r, principal, &refusal{status: http.StatusMethodNotAllowed, reason: "this HTTP method is served for sessions only"})
}

// refuseBusy refuses a request because a limit is reached, or the server stops.
func (s *Server) refuseBusy(w http.ResponseWriter, r *http.Request, principal *call.Principal, id wire.ID, status int, reason string) {
	s.refuse(w, r, principal, &refusal{status, reason, id})
}

// refuseDraining refuses a new call while the server drains. The call was not begun, so
// the client can send it again on a new connection, which may reach another replica.
func (s *Server) refuseDraining(w http.ResponseWriter, r *http.Request, principal *call.Principal, id wire.ID) {
	w.Header().Set("Retry-After", retryAfter)
	w.Header().Set("Connection", "close")
	s.countRefused(zapcore.InfoLevel, "request refused", w, r, http.StatusServiceUnavailable, refusedDraining,
		zap.String("reason", errDraining.Message), zap.String("principal", principal.Subject))
	s.answerRejected(w, id, http.StatusServiceUnavailable, errDraining)
}

// rejectMessage answers a message that violates the protocol. The text of the error may
// quote the message; the log has it without the quotes.
func (s *Server) rejectMessage(w http.ResponseWriter, r *http.Request, principal *call.Principal, id wire.ID, status int, e *wire.Error) {
	s.countRefused(zapcore.InfoLevel, "protocol violation", w, r, status, reasonOf(status, e.Code), zap.Int64("code", e.Code),
		zap.String("reason", withoutQuotes(e.Message)), zap.String("principal", principal.Subject), given("mcp_method", r.Header.Get(wire.HeaderMethod)))
	s.answerRejected(w, id, status, e)
}

// maxRejection bounds the reason in a line of logRejected, in bytes: it may name the method.
const maxRejection = 256

// logRejected counts and logs a request that the front end answers with an error itself, on any
// transport: the request has no line of a call.
func (s *Server) logRejected(principal *call.Principal, remote, request, method string, e *wire.Error) {
	what, kind := "protocol violation", reasonOf(0, e.Code)
	switch {
	case e == errShuttingDown:
		what, kind = "request refused", refusedDraining
	case e.Code == wire.CodeInternal: // the request itself is valid
		what, kind = "request refused", refusedShare
	}
	s.options.Metrics.Refused.WithLabelValues(kind).Inc()
	s.ratelog.LogCategory(zapcore.InfoLevel, what, kind, zap.Int64("code", e.Code), zap.String("reason", clipTo(withoutQuotes(e.Message), maxRejection)),
		zap.String("principal", principal.Subject), ratelog.Profile(principal.Profile), given("mcp_method", method),
		zap.String("kind", kind), given("remote", remote), zap.String("request", request))
}

// given returns a field with a client's text, and none for "".
func given(name, text string) zap.Field {
	if text == "" {
		return zap.Skip()
	}
	return zap.String(name, clip(text))
}

// quote matches a quoted part of a text; the last one may be cut.
var quote = regexp.MustCompile(`"((?:[^"\\]|\\.)*)(?:"|\\?$)|\B'(?:[^'\\]|\\.)+'`)

// withoutQuotes returns an error about a message without what it quotes of the message.
func withoutQuotes(text string) string {
	return quote.ReplaceAllStringFunc(text, func(q string) string {
		switch strings.Trim(q, `"`) {
		case wire.MetaProtocolVersion, wire.MetaClientCapabilities, wire.MetaClientInfo, wire.MetaLogLevel:
			return q
		}
		return "[…]"
	})
}

func (s *Server) answerRejected(w http.ResponseWriter, id wire.ID, status int, e *wire.Error) {
	s.writeJSON(w, 0, status, pieces{errorResponse(id, requestid.Of(w), e)})
}

// writeAccepted answers a message that has no response.
func writeAccepted(w http.ResponseWriter) { writeStatus(w, http.StatusAccepted) }

// writeStatus answers by a status without a body.
func writeStatus(w http.ResponseWriter, status int) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
}

// recoverPanic keeps a bug from ending the process.
func (s *Server) recoverPanic(w http.ResponseWriter) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.logPanic(p, requestid.Of(w))
		s.writeJSON(w, 0, http.StatusInternalServerError, pieces{errorResponse(wire.ID{}, requestid.Of(w), errInternal)})
	}
}

func (s *Server) logPanic(p any, request string) {
	s.ratelog.Error("panic", zap.String("request", request), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

// origins returns the Host and the Origin of a refused request for the log.
func origins(r *http.Request) []zap.Field {
	fields := []zap.Field{zap.String("host", clipTo(r.Host, maxHost))}
	if values := r.Header["Origin"]; len(values) > 0 {
		var shown []string
		for _, v := range values {
			shown = append(shown, origin.Shown(v))
		}
		fields = append(fields, zap.String("origin", clipTo(strings.Join(shown, ", "), maxHost)))
	}
	return fields
}

// maxHost bounds a Host or Origin in the log, in bytes: a name in DNS has at most 253.
const maxHost = 280

// requestIDMember is the member of an error's data with the request id.
const requestIDMember = "requestId"

// withRequestID returns an error of the gateway with the request id in its data. An error of
// a peer stays as it is.
func withRequestID(e *wire.Error, request string) *wire.Error {
	if e.Raw != nil {
		return e
	}
	data := e.Data
	if wire.ValueOf(data).Kind() != '{' {
		data = wire.Raw(`{}`) // no error of the gateway has other data
	}
	c := *e
	c.Data = wire.SetMember(data, requestIDMember, wire.String(request))
	return &c
}

// clip makes a client's text safe for the log: short, and without control characters.
func clip(s string) string { return clipTo(s, 64) }

func clipTo(s string, maxBytes int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, plaintext.Clip(s, maxBytes))
}
