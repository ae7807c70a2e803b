package gateway

import (
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/requestid"
)

// maxAdminPath bounds the path of a refused request in the log, in bytes.
const maxAdminPath = 64

// adminRefused logs and counts a request that the admin address refuses.
func (g *Gateway) adminRefused(w http.ResponseWriter, r *http.Request, status int, reason string) {
	g.metrics.adminRefused.Inc()
	g.ratelog.Warn("admin request refused", zap.Int("status", status), zap.String("reason", reason), zap.String("http_method", plaintext.Clip(r.Method, maxAdminPath)),
		zap.String("path", plaintext.Line(plaintext.URLPath(r.URL.EscapedPath()), maxAdminPath)), zap.String("remote", r.RemoteAddr), zap.String("request", requestid.Of(w)))
}

// logLevelChanging logs a change of the level of the log, while both levels are in force: the lower one has the line.
func (g *Gateway) logLevelChanging(w http.ResponseWriter, r *http.Request, from, to zapcore.Level) {
	g.log.Warn("the level of the log was changed", zap.Stringer("from", from), zap.Stringer("to", to), zap.String("remote", r.RemoteAddr), zap.String("request", requestid.Of(w)))
}
