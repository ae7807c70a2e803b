package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/router"
	"mcpgateway/internal/telemetry"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// productName is how the gateway introduces itself to clients and upstreams.
const productName = "mcpgateway"

// Options say what a Gateway is made of.
type Options struct {
	Config  *config.Config
	Demo    bool // serve the built-in upstreams in place of configured ones
	Version string
	Logger  *zap.Logger
	// Stdio says that the gateway will serve one client by RunStdio. It listens
	// nowhere then, not for health and metrics either: a host starts such a
	// gateway for itself, perhaps beside others with the same configuration.
	Stdio bool
	// Source is the file that the configuration came from, "" for none.
	Source string
	// AnyPort and AnyAdminPort take another port of the same host where the
	// configured one is taken. Addr and AdminAddr tell which.
	AnyPort, AnyAdminPort bool
	// Watch is told how an upstream is, each time that changes. It must not block;
	// it is called by one goroutine at a time for each upstream. None: nobody is.
	Watch func(UpstreamStatus)
}

// Gateway is one running gateway.
type Gateway struct {
	cfg     *config.Config
	demo    bool
	version string
	log     *zap.Logger

	info wire.Raw // serverInfo, as clients see it

	registry        *prometheus.Registry
	metrics         *metrics
	upstreamMetrics *upstream.Metrics
	routerMetrics   *router.Metrics

	// sealer seals request states for the router and the front end; replica
	// names this process in them.
	sealer  *bridge.Sealer
	replica string

	// trail knows the gateways before and behind this one; marks stand for the
	// files of the configurations of those that started one another, this one the
	// last.
	trail *upstream.Trail
	marks []string

	state     *state
	pins      *pins // nil: no upstream is pinned
	policy    *policy.Policy
	upstreams []*member // in file order
	routes    map[string]router.Upstream
	tellers   map[string]router.Subscriber
	router    *router.Router
	subs      *router.Subscriptions
	front     *frontend.Server
	audit     *telemetry.Audit // nil: there is none

	auth  *auth.Authenticator // nil where no proof is asked for
	certs *certificates       // nil without TLS

	mcp, admin net.Listener

	watch func(UpstreamStatus) // nil for nobody
	begun time.Time            // when the upstreams began to run

	// settled is closed when every upstream has ended its first attempt, or
	// startup_wait is over.
	settled chan struct{}
	// draining is set when the end has begun.
	draining atomic.Bool

	// schemas keeps compiled schemas from one table to the next.
	schemas conform.Schemas
	// reported are the findings that were logged; the control loop's own.
	reported map[catalog.Finding]bool

	// changed wakes the control loop; snapshots is what it then reads.
	changed   chan struct{}
	mu        sync.Mutex // guards snapshots
	snapshots map[string]upstream.Snapshot
}

// New puts a gateway together and opens its addresses, so that whoever starts
// it knows where it will answer. Run serves; a gateway that is not run must be
// closed. Where an upstream is the gateway itself the error is config.Errors.
func New(o Options) (*Gateway, error) {
	if !o.Stdio {
		if err := o.Config.CheckLoops(); err != nil {
			return nil, err
		}
	}
	g := &Gateway{
		cfg: o.Config, demo: o.Demo, version: o.Version, log: o.Logger, watch: o.Watch,
		registry:        telemetry.NewRegistry(),
		metrics:         newMetrics(),
		upstreamMetrics: upstream.NewMetrics(),
		routerMetrics:   router.NewMetrics(),
		state:           openState(o.Config.StateDir, o.Logger),
		routes:          map[string]router.Upstream{},
		tellers:         map[string]router.Subscriber{},
		sealer:          bridge.NewSealer(o.Config.Bridge.SealKeys()...),
		replica:         rand.Text(),
		settled:         make(chan struct{}),
		reported:        map[catalog.Finding]bool{},
		changed:         make(chan struct{}, 1),
		snapshots:       map[string]upstream.Snapshot{},
	}
	g.info = serverInfo(o.Version)
	if err := g.openTrail(o.Source, o.Stdio); err != nil {
		return nil, err
	}
	if err := g.members(); err != nil {
		return nil, err
	}
	if err := g.openMemberPins(); err != nil {
		return nil, err
	}
	var err error
	if g.policy, err = g.newPolicy(); err != nil {
		return nil, err
	}
	g.router = router.New(router.Options{
		Settled: g.settled, Logger: o.Logger, Metrics: g.routerMetrics,
		Sealer: g.sealer, StateTTL: o.Config.Bridge.StateTTL, AskTimeout: o.Config.Bridge.AskTimeout, Unlabelled: !o.Config.Asks.Label,
		Audit: g.newAudit(o.Stdio),
	}, g.newRoutes(false))
	g.subs = router.NewSubscriptions(g.router)
	frontMetrics, authMetrics := frontend.NewMetrics(), auth.NewMetrics()
	if g.auth, err = newAuthenticator(o.Config, o.Logger, authMetrics); err != nil {
		return nil, err
	}
	g.front = frontend.New(g.frontendOptions(frontMetrics))
	for _, c := range [][]prometheus.Collector{
		g.metrics.collectors(), g.upstreamMetrics.Collectors(), g.routerMetrics.Collectors(), frontMetrics.Collectors(), authMetrics.Collectors(),
	} {
		g.registry.MustRegister(c...)
	}
	if o.Stdio {
		return g, nil
	}
	if o.Config.TLS.On() {
		if g.certs, err = newCertificates(o.Config, o.Logger); err != nil {
			return nil, err
		}
	}
	if err := g.openAudit(); err != nil {
		return nil, err
	}
	if err := g.open(o.AnyPort, o.AnyAdminPort); err != nil {
		g.closeAudit()
		return nil, err
	}
	return g, nil
}

func (g *Gateway) frontendOptions(m *frontend.Metrics) frontend.Options {
	o := frontend.Options{
		Handler:          handler{g.router, g.trail},
		Info:             g.info,
		Limits:           wire.Limits{Depth: g.cfg.Limits.MaxDepth},
		MaxMessage:       int(g.cfg.Limits.MaxMessage),
		MaxSessions:      g.cfg.Limits.MaxSessions,
		SessionIdle:      g.cfg.Limits.SessionIdle,
		AllowedOrigins:   g.cfg.AllowedOrigins,
		AllowedHosts:     g.cfg.AllowedHosts,
		PublicURL:        g.cfg.PublicURL,
		LoopbackListener: loopback(g.cfg.Listen),
		Logger:           g.log,
		Metrics:          m,
		LogLevel:         g.setLogLevel,
		ToolSchema:       g.toolSchema,
		Subscriptions:    g.subs,
		Tasks:            g.router,
		Permit:           g.router.Permit,
		Sealer:           g.sealer,
		Replica:          g.replica,
		ParkTTL:          g.cfg.Bridge.ParkTTL,
		SessionEnded:     g.sessionEnded,
		RootsChanged:     g.rootsChanged,
	}
	if g.auth != nil {
		o.Authenticate, o.ScopeChallenge = g.auth.Authenticate, g.auth.ScopeChallenge
	}
	return o
}

// serverInfo is how the gateway introduces itself to clients.
func serverInfo(version string) wire.Raw {
	info := wire.SetMember(wire.Raw(`{}`), "name", wire.String(productName))
	info = wire.SetMember(info, "title", wire.String("MCP gateway"))
	return wire.SetMember(info, "version", wire.String(version))
}

// Addr is the address that MCP is served on.
func (g *Gateway) Addr() string { return g.mcp.Addr().String() }

// URL is where clients on this machine reach MCP.
func (g *Gateway) URL() string {
	if g.certs != nil {
		return "https://" + g.Addr() + pathMCP
	}
	return "http://" + g.Addr() + pathMCP
}

// AdminAddr is the address of health and metrics.
func (g *Gateway) AdminAddr() string { return g.admin.Addr().String() }

// UpstreamNames lists the upstreams, for people.
func (g *Gateway) UpstreamNames() string {
	names := make([]string, len(g.upstreams))
	for i, m := range g.upstreams {
		names[i] = m.name
	}
	return strings.Join(names, ", ")
}

// Run serves until ctx ends, then drains: event streams end at once, calls get
// drain_timeout. It returns when everything has ended, nil unless serving
// failed.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.Close()
	return g.runAll(ctx, func(life context.Context) error { return g.serve(ctx, life) })
}

// RunStdio serves one client on a pipe until in ends, or ctx does; then it
// drains like Run.
func (g *Gateway) RunStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	defer g.Close()
	if err := g.openAudit(); err != nil {
		return err
	}
	return g.runAll(ctx, func(life context.Context) error { return g.serveStdio(ctx, life, in, out) })
}

// runAll runs all parts of the gateway for as long as serve does.
func (g *Gateway) runAll(ctx context.Context, serve func(life context.Context) error) error {
	// What serves calls outlives ctx until the calls have ended.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, life := errgroup.WithContext(life)
	g.begun = time.Now()
	for _, m := range g.upstreams {
		group.Go(func() error { return m.sessions.Run(life) })
	}
	group.Go(func() error { return g.control(life) })
	group.Go(func() error { return g.front.Run(life) })
	group.Go(func() error {
		defer end()
		return serve(life)
	})
	return group.Wait()
}

// Close gives the addresses back, and closes the audit. Run does it too.
func (g *Gateway) Close() {
	for _, l := range []net.Listener{g.mcp, g.admin} {
		if l != nil {
			_ = l.Close() // one that its server has closed already says so; that is no news
		}
	}
	g.closeAudit()
}

// toolSchema is the input schema of a tool as a client sees it.
func (g *Gateway) toolSchema(who *call.Principal, client *call.Client, public string) wire.Raw {
	return g.router.Schema(who, client, public)
}

// setLogLevel tells the upstreams how verbose their log messages have to be.
func (g *Gateway) setLogLevel(level wire.Level) {
	for _, m := range g.upstreams {
		m.sessions.SetLogLevel(level)
	}
}

// ready says what the gateway still waits for before it should get traffic:
// required upstreams until they are ready, the others until their first attempt
// has ended or startup_wait is over.
func (g *Gateway) ready() []string {
	if g.draining.Load() {
		return []string{"the gateway is draining"}
	}
	var waits []string
	for _, m := range g.upstreams {
		s := m.sessions.Snapshot()
		switch {
		case s.Up():
		case m.required:
			waits = append(waits, fmt.Sprintf("required upstream %s is %s", m.name, s.State))
		case !s.Settled && !g.isSettled():
			waits = append(waits, fmt.Sprintf("upstream %s is %s", m.name, s.State))
		}
	}
	return waits
}

func (g *Gateway) isSettled() bool {
	select {
	case <-g.settled:
		return true
	default:
		return false
	}
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// metrics are the measures of the control loop.
type metrics struct {
	items *prometheus.GaugeVec
	swaps *prometheus.CounterVec
	held  *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		items: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_table_items", Help: "Items in the merged catalog.",
		}, []string{"kind"}),
		swaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_table_swaps_total", Help: "New tables, by whether clients see a difference.",
		}, []string{"outcome"}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_pinned_changes_total", Help: "Definitions of tools that are hidden since they are not the pinned ones.",
		}, []string{"upstream"}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.items, m.swaps, m.held}
}

// count records what a table holds.
func (m *metrics) count(t *catalog.Table) {
	for kind, n := range t.Counts() {
		m.items.WithLabelValues(call.Kind(kind).String()).Set(float64(n))
	}
}
