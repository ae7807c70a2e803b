package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
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
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/mask"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/router"
	"mcpgateway/internal/statedir"
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
	Stdio  bool
	Source Source
	// AnyPort and AnyAdminPort take another port of the same host where the
	// configured one is taken. Addr and AdminAddr tell which.
	AnyPort, AnyAdminPort bool
	// Watch is told how an upstream is, each time that changes. It must not block;
	// it is called by one goroutine at a time for each upstream. None: nobody is.
	Watch func(inspect.Upstream)
}

// Gateway is one running gateway.
type Gateway struct {
	cfg     *config.Config // from the start: of it only what cannot change is read
	demo    bool
	stdio   bool
	version string
	log     *zap.Logger // in which the secrets of the configuration are masked
	ratelog *ratelog.Logger
	secrets *mask.Secrets

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
	trail       *upstream.Trail
	configMarks []string

	state         *statedir.Dir
	generation    atomic.Pointer[generation]
	router        *router.Router
	subscriptions *router.Subscriptions
	front         *frontend.Server
	adminGuard    atomic.Pointer[origin.Guard]
	epochs        *epochs
	logLevel      atomic.Int64     // the most verbose that a client wants, a wire.Level
	audit         *telemetry.Audit // nil: there is none

	auth  *auth.Authenticator // nil where no proof is asked for
	certs *certificateFiles   // nil without TLS

	grants *credentials.Store // of principals, for upstreams with auth.kind user
	web    *credentials.Web   // the pages on which they are given

	mcp, admin net.Listener

	watch     func(inspect.Upstream) // may be nil
	inspector *inspect.Inspector

	// settled is closed when every upstream has ended its first attempt, or
	// startup_wait is over.
	started chan struct{}
	// draining is set when the end has begun.
	draining atomic.Bool

	group *errgroup.Group // of all that runs; set when Run begins

	// changed wakes the control loop, reloads brings it configurations, and ended
	// is closed when it has ended.
	wakeups      chan struct{}
	rebuildAll   atomic.Bool // it is to look at all upstreams, not only at principals' own lists
	principals   *principals
	swapped      chan struct{} // capacity 1: there is a new table
	reloads      chan *reloadRequest
	controlEnded chan struct{}
	configSource Source
	reloadQueue  *reloadQueue

	// The rest is the control loop's own.

	schemas        conform.Cache                  // keeps what was found out about items from one table to the next
	loggedFindings map[string]map[uint64]bool     // digests of the findings that were logged, by upstream
	announced      *catalog.Table                 // what clients were told of
	inputs         tableInputs                    // what the last table was made of
	inUse          map[*connection]*upstreamEntry // the links of the last table
	drainingEpochs []*epoch                       // whose calls may use links that are not in use any more
	waitUntil      time.Time                      // until when a first attempt is waited for, zero for none
}

// New puts a gateway together and opens its addresses, so that whoever starts
// it knows where it will answer. Run serves; a gateway that is not run must be
// closed. Where an upstream is the gateway itself the error is config.Errors.
func New(o Options) (*Gateway, error) {
	secrets := &mask.Secrets{}
	secrets.Learn(o.Config.Secrets(os.LookupEnv))
	o.Logger = o.Logger.WithOptions(zap.WrapCore(secrets.WrapCore))
	g := &Gateway{
		secrets: secrets,
		cfg:     o.Config, demo: o.Demo, stdio: o.Stdio, version: o.Version, log: o.Logger, ratelog: ratelog.New(o.Logger), watch: o.Watch,
		registry:        telemetry.NewRegistry(),
		metrics:         newMetrics(),
		upstreamMetrics: upstream.NewMetrics(),
		routerMetrics:   router.NewMetrics(),
		epochs:          newEpochs(),
		sealer:          bridge.NewSealer(o.Config.Bridge.SealKeys()...),
		replica:         rand.Text(),
		started:         make(chan struct{}),
		loggedFindings:  map[string]map[uint64]bool{},
		wakeups:         make(chan struct{}, 1),
		swapped:         make(chan struct{}, 1),
		reloads:         make(chan *reloadRequest),
		controlEnded:    make(chan struct{}),
		configSource:    o.Source,
		reloadQueue:     newReloadQueue(),
		principals:      newPrincipals(),
	}
	if o.Demo { // of which nothing is worth keeping
		g.state = statedir.Open("", zap.NewNop())
	} else {
		g.state = statedir.Open(o.Config.StateDir, o.Logger)
	}
	g.inspector = inspect.New(inspected{g})
	g.info = serverInfo(o.Version)
	g.grants = credentials.NewStore(g.state.Path())
	if err := g.detectLoops(o.Source.File, o.Stdio); err != nil {
		return nil, err
	}
	first, err := g.newGeneration(o.Config, nil)
	if err != nil {
		return nil, err
	}
	g.generation.Store(first)
	g.inUse = first.connections()
	if g.web, err = g.newWeb(); err != nil {
		return nil, err
	}
	g.router = router.New(router.Options{
		Settled: g.started, Logger: o.Logger, Metrics: g.routerMetrics,
		Sealer: g.sealer, Audit: g.newAudit(o.Stdio), Nonconforming: g.nonconforming,
	}, g.buildRoutes(first, snapshotsOf(g.inUse), time.Now()))
	routes := *g.router.Routes()
	routes.Owners = g.newPrincipalTables(nil)
	g.router.Swap(&routes)
	g.announced = routes.Table
	g.subscriptions = router.NewSubscriptions(g.router)
	frontMetrics, authMetrics := frontend.NewMetrics(), auth.NewMetrics()
	if g.auth, err = newAuthenticator(o.Config, o.Logger, authMetrics); err != nil {
		return nil, err
	}
	g.front = frontend.New(g.frontendOptions(frontMetrics))
	g.guardAdmin(g.cfg)
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
		Handler:          handler{g.router, g.trail, g.epochs},
		Info:             g.info,
		Limits:           wire.Limits{Depth: g.cfg.Limits.MaxDepth},
		MaxMessage:       int(g.cfg.Limits.MaxMessage),
		MaxSessions:      g.cfg.Limits.MaxSessions,
		SessionIdle:      g.cfg.Limits.SessionIdle,
		Settings:         settingsOf(g.cfg),
		LoopbackListener: origin.OnLoopback(g.cfg.Listen),
		Logger:           g.log,
		Metrics:          m,
		LogLevel:         g.setLogLevel,
		ToolSchema:       g.toolSchema,
		Subscriptions:    g.subscriptions,
		Tasks:            g.router,
		Permit:           g.router.Permit,
		Sealer:           g.sealer,
		Replica:          g.replica,
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
	scheme := "http://"
	if g.certs != nil {
		scheme = "https://"
	}
	return scheme + fromHere(g.mcp.Addr()) + pathMCP
}

// AdminURL is where programs on this machine reach health and metrics.
func (g *Gateway) AdminURL() string { return "http://" + fromHere(g.admin.Addr()) }

// Proofs are the ways in which clients may prove who they are.
func (g *Gateway) AuthModes() []config.AuthMode { return g.cfg.Auth.Mode }

// fromHere is how this machine names an address of its own: what stands for all of
// them is no name that a client should use.
func fromHere(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return a.String()
}

// AdminAddr is the address of health and metrics.
func (g *Gateway) AdminAddr() string { return g.admin.Addr().String() }

// UpstreamNames lists the upstreams, for people.
func (g *Gateway) UpstreamNames() string {
	members := g.generation.Load().entries
	names := make([]string, len(members))
	for i, m := range members {
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
	g.group = group
	group.Go(func() error { return g.controlLoop(life) })
	group.Go(func() error { return g.followSubscriptions(life) })
	group.Go(func() error { return g.reloadLoop(life) })
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
	g.logLevel.Store(int64(level))
	for l := range g.generation.Load().connections() {
		l.sessions.SetLogLevel(level)
	}
}

// loudest is the level that the upstreams were told.
func (g *Gateway) currentLogLevel() wire.Level { return wire.Level(g.logLevel.Load()) }

// ready says what the gateway still waits for before it should get traffic:
// required upstreams until they are ready, the others until their first attempt
// has ended or startup_wait is over.
func (g *Gateway) ready() []string {
	if g.draining.Load() {
		return []string{"the gateway is draining"}
	}
	var waits []string
	for _, m := range g.generation.Load().entries {
		s := m.active.Load().snapshot()
		switch {
		case s.Up():
		case m.required:
			waits = append(waits, fmt.Sprintf("required upstream %s is %s", m.name, s.State))
		case !s.Settled && !g.isStarted():
			waits = append(waits, fmt.Sprintf("upstream %s is %s", m.name, s.State))
		}
	}
	return waits
}

func (g *Gateway) isStarted() bool { return isClosed(g.started) }

// metrics are the measures of the control loop.
type metrics struct {
	items   *prometheus.GaugeVec
	swaps   *prometheus.CounterVec
	held    *prometheus.CounterVec
	reloads *prometheus.CounterVec
}

// outcomes of reloads. They are counted from 0 on: where a counter begins with 1,
// no alert on its increase sees the first time.
const (
	reloadChanged = "changed"
	reloadSame    = "same"
	reloadRefused = "refused"
)

func newMetrics() *metrics {
	m := &metrics{
		items: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mcp_gateway_table_items", Help: "Items in the merged catalog.",
		}, []string{"kind"}),
		swaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_table_swaps_total", Help: "New tables, by whether clients see a difference.",
		}, []string{"outcome"}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_pinned_changes_total", Help: "Definitions of tools that are hidden since they are not the pinned ones.",
		}, []string{"upstream"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcp_gateway_config_reloads_total", Help: "Reloads of the configuration, by what became of them.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{reloadChanged, reloadSame, reloadRefused} {
		m.reloads.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.items, m.swaps, m.held, m.reloads}
}

// count records what a table holds.
func (m *metrics) count(t *catalog.Table) {
	for kind, n := range t.Counts() {
		m.items.WithLabelValues(call.Kind(kind).String()).Set(float64(n))
	}
}
