package webui

import (
	"net/http"

	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/zap"

	"mcpgateway/internal/requestid"
)

// action is a form of a page that changes something at the gateway or calls an upstream.
type action struct {
	path string // below Prefix
	name string // in the log
	// logged are the fields of the form that the log line has. No other field is logged.
	logged []string
	// do serves the POST. It decides itself whether the session may see what the form names.
	do func(c *Console, w http.ResponseWriter, r *http.Request)
}

// actions are all actions that the router serves.
var actions = []*action{tryAction, tryAnswerAction, tryCancelAction, decideAction, revokeAction}

// maxLogged bounds each field of a form in the log, in bytes.
const maxLogged = 200

// serveAction serves the POST of an action and logs who sent it. Earlier handlers have checked the origin of
// the request, the session and the token of the form.
func (c *Console) serveAction(w http.ResponseWriter, r *http.Request, a *action) {
	fields := []zap.Field{zap.String("action", a.name), zap.String("by", c.actor(r)), zap.String("remote", r.RemoteAddr), zap.String("request", requestid.Of(w))}
	for _, name := range a.logged {
		fields = append(fields, zap.String(name, clip(r.PostFormValue(name), maxLogged)))
	}
	if !c.Actions {
		c.Log.Warn("an action of the console was refused", append(fields, zap.String("reason", "admin.actions is false"))...)
		c.fail(w, r, http.StatusForbidden, "This console only shows. To act in it, set admin.actions: true in the configuration and restart the gateway.")
		return
	}
	answer := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
	defer func() { c.Log.Info("action of the console", append(fields, zap.Int("status", answer.Status()))...) }()
	a.do(c, answer, r)
}

// actor names the person of a request for the log.
func (c *Console) actor(r *http.Request) string {
	if v := visitorOf(r); v != nil {
		return clip(v.Subject, maxLogged) + " (" + v.AuthMethod + ")"
	}
	return "admin"
}
