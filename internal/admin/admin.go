package admin

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	// Pprof serves the runtime's profiles under /debug/pprof/.
	Pprof bool
}

// New returns the handler of the admin address.
func New(o Options) http.Handler {
	r := chi.NewRouter()
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
	if o.Pprof {
		r.Group(func(r chi.Router) {
			r.Use(o.guard)
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

// guard lets only those through who may see more than health and metrics.
func (o Options) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Token == "" {
			if !fromLoopback(r) {
				http.Error(w, "forbidden: set admin.token to reach this from other machines", http.StatusForbidden)
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

func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the prober is gone; nobody is left to tell
}
