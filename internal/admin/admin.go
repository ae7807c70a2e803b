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

	"mcpgateway/internal/origin"
)

// Options say what the handler shows.
type Options struct {
	// Ready returns nil when the gateway may get traffic, else what it still
	// waits for, one sentence each.
	Ready    func() []string
	Gatherer prometheus.Gatherer
	// Token, when not empty, is asked for as a bearer token by everything but
	// the probes and the metrics. Without one those pages exist on loopback
	// only.
	Token string
	// Reload serves POST /-/reload: it returns a status and what is answered as
	// JSON. It may be nil.
	Reload func(ctx context.Context) (status int, body any)
	// Guard returns what decides by Host and Origin which requests are served now.
	Guard func() *origin.Guard
	// Pprof serves the runtime's profiles under /debug/pprof/.
	Pprof bool
}

// New returns the handler of the admin address.
func New(o Options) http.Handler {
	r := chi.NewRouter()
	r.Use(o.noPages)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "ok"})
	})
	r.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if waits := o.Ready(); len(waits) > 0 {
			writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "waiting": waits})
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"status": "ready"})
	})
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}))
	if o.Reload != nil {
		r.With(o.proved).Post("/-/reload", func(w http.ResponseWriter, r *http.Request) {
			status, body := o.Reload(r.Context())
			writeJSON(w, status, body)
		})
	}
	if o.Pprof {
		r.Group(func(r chi.Router) {
			r.Use(o.proved)
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

// proved lets only those through who may see more than health and metrics.
func (o Options) proved(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Token == "" {
			// A page in a browser on this machine is from loopback, too, but its Host is not.
			if !origin.OnLoopback(r.RemoteAddr) || !origin.OnLoopback(r.Host) {
				http.Error(w, "forbidden: set admin.token to reach this from other machines, "+
					"or on this machine send it to a loopback address by its number or as localhost", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(o.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "unauthorized: send admin.token as a bearer token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// noPages turns away what a page that somebody merely visits can send from their
// browser, against which the address of the sender says nothing. No page has a reason
// to change anything here, wherever it comes from.
func (o Options) noPages(next http.Handler) http.Handler {
	pages := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := o.Guard().Refuses(r); reason != "" {
			http.Error(w, "forbidden: "+reason+"; on loopback use its number or localhost, "+
				"elsewhere the number of the machine or a name of allowed_hosts", http.StatusForbidden)
			return
		}
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !reads && (len(r.Header["Origin"]) > 0 || pages.Check(r) != nil) {
			http.Error(w, "forbidden: pages in a browser may not do this", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asked is gone; nobody is left to tell
}
