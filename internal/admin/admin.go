package admin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/origin"
)

// Options configure the handler.
type Options struct {
	// Ready returns the reasons why the gateway is not ready, one sentence each. It returns none
	// when the gateway may get traffic.
	Ready func() []string
	// Down returns the optional parts that are down, one sentence each. It may be nil.
	Down func() []string
	// Failing returns failures that do not affect readiness, one sentence each. It may be nil.
	Failing  func() []string
	Gatherer prometheus.Gatherer
	// Exemplars says that metrics have exemplars. Only the format OpenMetrics can carry them, so
	// scrapers that accept this format get it.
	Exemplars bool
	// Token is the bearer token that all pages except the probes and the metrics
	// require. Without a token those pages are served only to programs on this machine.
	Token string
	// Reload serves POST /-/reload. It returns the HTTP status and the body, which is
	// sent as JSON. Without Reload the path does not exist.
	Reload func(ctx context.Context) (status int, body any)
	// Status serves GET /-/status. It returns the body, which is sent as JSON. Without
	// Status the path does not exist.
	Status func() (body any, err error)
	// LogLevel is the level of the log, which GET /-/loglevel shows and PUT changes. Without it the
	// path does not exist.
	LogLevel *zap.AtomicLevel
	// Guard returns the guard that currently decides by Host and Origin which requests
	// are served.
	Guard func() *origin.Guard
	// Pprof serves the profiles of the Go runtime under /debug/pprof/.
	Pprof bool
	// Refused is called for each refused request, before its answer. It may be nil. The reason
	// contains no part of the request.
	Refused func(w http.ResponseWriter, r *http.Request, status int, reason string)
	// LevelChanging is called for a change of LogLevel: before the level rises, and after it has
	// fallen, so that its log line is written at either level. It may be nil.
	LevelChanging func(w http.ResponseWriter, r *http.Request, from, to zapcore.Level)
	// UI serves the console under /ui. It decides who may open it, and which of its pages may change
	// something. Without it the paths do not exist.
	UI http.Handler
}

// New returns the handler of the admin address.
func New(o Options) http.Handler {
	all := chi.NewRouter()
	all.Use(o.checkHost)
	if o.UI != nil {
		all.Handle("/ui", o.UI)
		all.Handle("/ui/*", o.UI)
	}
	all.Mount("/", o.machinePages())
	all.NotFound(o.listPages)
	return all
}

// listPages answers requests for a path that does not exist with those that a person may look for.
func (o Options) listPages(w http.ResponseWriter, _ *http.Request) {
	ui := ""
	if o.UI != nil {
		ui = "  /ui        the console\n"
	}
	http.Error(w, "There is no such page. This is the admin address of an MCP gateway, which has:\n\n"+ui+
		"  /healthz   whether it is healthy\n  /readyz    whether it is ready\n  /metrics   metrics for Prometheus", http.StatusNotFound)
}

// machinePages returns the handler of everything that no page of a browser asks for.
func (o Options) machinePages() http.Handler {
	r := chi.NewRouter()
	r.Use(o.refusePages)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "ok"})
	})
	r.Get("/readyz", o.serveReady)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: o.Exemplars}))
	if o.Reload != nil {
		r.With(o.authorize).Post("/-/reload", o.serveReload)
	}
	if o.Status != nil {
		r.With(o.requireToken).Get("/-/status", o.serveStatus)
	}
	if o.LogLevel != nil {
		r.With(o.authorize).Get("/-/loglevel", o.serveLogLevel)
		r.With(o.authorize).Put("/-/loglevel", o.setLogLevel)
	}
	if o.Pprof {
		r.Group(func(r chi.Router) {
			r.Use(o.authorize)
			r.HandleFunc("/debug/pprof/", pprof.Index)
			r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
			r.HandleFunc("/debug/pprof/profile", pprof.Profile)
			r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
			r.HandleFunc("/debug/pprof/trace", pprof.Trace)
			r.HandleFunc("/debug/pprof/{name}", pprof.Index)
		})
	}
	return r
}

// NewLocal returns the handler of readiness, status, reload and log level for a listener that only the user of
// the gateway can reach. It requires no token.
func NewLocal(o Options) http.Handler {
	r := chi.NewRouter()
	r.Get("/readyz", o.serveReady)
	r.Post("/-/reload", o.serveReload)
	r.Get("/-/status", o.serveStatus)
	if o.LogLevel != nil {
		r.Get("/-/loglevel", o.serveLogLevel)
		r.Put("/-/loglevel", o.setLogLevel)
	}
	return r
}

func (o Options) serveReady(w http.ResponseWriter, _ *http.Request) {
	status, body := http.StatusOK, map[string]any{"status": "ready"}
	if waiting := o.Ready(); len(waiting) > 0 {
		status, body = http.StatusServiceUnavailable, map[string]any{"status": "not ready", "waiting": waiting}
	}
	for member, find := range map[string]func() []string{"down": o.Down, "failing": o.Failing} {
		if find == nil {
			continue
		}
		if found := find(); len(found) > 0 {
			body[member] = found
		}
	}
	writeJSON(w, status, body)
}

func (o Options) serveReload(w http.ResponseWriter, r *http.Request) {
	status, body := o.Reload(r.Context())
	writeJSON(w, status, body)
}

func (o Options) serveStatus(w http.ResponseWriter, _ *http.Request) {
	body, err := o.Status()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// requireToken is authorize for what other users of this machine must not read: without a
// configured token it refuses everybody.
func (o Options) requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Token == "" {
			o.refuse(w, r, http.StatusForbidden, "forbidden: the status is shown here only if admin.token is set; "+
				"without it, run gateway status as the user who runs the gateway")
			return
		}
		o.authorize(next).ServeHTTP(w, r)
	})
}

// authorize requires the token. Without a configured token it requires that a program on
// this machine sent the request directly.
func (o Options) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Token == "" {
			// A web page that rebound its name to loopback is local too, but its Host is not.
			if !origin.IsLocal(r) || !origin.IsLoopbackHost(r.Host) {
				o.refuse(w, r, http.StatusForbidden, "forbidden: set admin.token to use this from other machines or through a proxy; "+
					"without a token, send the request directly to 127.0.0.1 or localhost on this machine")
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(o.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			o.refuse(w, r, http.StatusUnauthorized, "unauthorized: send admin.token as a bearer token")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses requests whose Host or Origin is not served here: a page that rebound its name
// to this address has another Host.
func (o Options) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A browser always sends Host. Health checks of balancers in HTTP/1.0 do not.
		probe := r.Host == "" && len(r.Header["Origin"]) == 0
		if reason := o.Guard().Refusal(r); reason != "" && !probe {
			o.refuse(w, r, http.StatusForbidden, "forbidden: "+reason+"; on this machine use 127.0.0.1, [::1] or localhost, "+
				"from elsewhere an IP address of this machine or a name listed under allowed_hosts")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusePages refuses requests to change something that a web page makes a browser send: the
// browser is trusted by its address, the page is not. No page has a reason to do that here,
// whatever its origin. The console checks its own.
func (o Options) refusePages(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !reads && (len(r.Header["Origin"]) > 0 || crossOrigin.Check(r) != nil) {
			o.refuse(w, r, http.StatusForbidden, "forbidden: pages in a browser may not do this")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request that is refused.
func (o Options) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if o.Refused != nil {
		_, reason, _ := strings.Cut(text, ": ")
		o.Refused(w, r, status, reason)
	}
	http.Error(w, text, status)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
