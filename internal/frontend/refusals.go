package frontend

import (
	"net/http"

	"go.uber.org/zap"

	"mcpgateway/internal/wire"
)

// The reasons that requests are refused for, as the metric has them.
const (
	refusedCredentials = "proof"
	refusedOrigin      = "origin_or_host"
	refusedSession     = "session"
	refusedMethod      = "http_method"
	refusedAccept      = "accept"
	refusedSize        = "size"
	refusedContent     = "content_type"
	refusedShare       = "share" // the client has as much as one may
	refusedFull        = "full"  // the gateway has as much as it may, or ends
	refusedParse       = "parse"
	refusedHeaders     = "headers" // they say something else than the body
	refusedRevision    = "revision"
	refusedInvalid     = "invalid" // any other breach of the protocol
)

// reasonOf sorts a refusal by its status and the code of its error.
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

// refused counts and logs a request that is refused. The fields must say nothing of
// what the message holds.
func (s *Server) countRefused(what string, r *http.Request, status int, code int64, fields ...zap.Field) {
	reason := reasonOf(status, code)
	s.options.Metrics.Refused.WithLabelValues(reason).Inc()
	s.ratelog.Info(what, append(fields, zap.Int("status", status), zap.String("kind", reason),
		zap.String("http_method", clip(r.Method)), zap.String("remote", r.RemoteAddr))...)
}
