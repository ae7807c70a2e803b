package gateway

import (
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net"
	"os"
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
	"mcpgateway/internal/clientauth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/embeddings"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/latest"
	"mcpgateway/internal/mask"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/personal"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/results"
	"mcpgateway/internal/router"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/store"
	"mcpgateway/internal/telemetry"
	"mcpgateway/internal/tlsfiles"
	"mcpgateway/internal/tracing"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/webui"
	"mcpgateway/internal/wire"
)

// productName is the name of the gateway toward clients and upstreams.
const productName = "mcpgateway"

// maxGathering is how many lazy upstreams are started at the same time only to gather
// their catalogs: more would make a small machine slow for a while.
const maxGathering = 4

// Options configure a Gateway.
type Options struct {
	Config  *config.Config
	Demo    bool // serve the built-in upstreams instead of configured ones
	Version string
	Logger  *zap.Logger
	// Stdio says that the gateway serves one client with RunStdio. It then listens nowhere,
	// not even for health and metrics: a host may start several such gateways with the same
	// configuration.
	Stdio bool
	// Profile is the profile that the client of RunStdio gets, "" for the default one.
	Profile string
	// LogLevel is the level of Logger, which the admin address changes. It may be nil.
	LogLevel *zap.AtomicLevel
	// InProcess says that the gateway serves its own process with RunInProcess. It then
	// listens nowhere either.
	InProcess bool
	Source    Source
	// AnyPort and AnyAdminPort select another port of the same host if the configured one
	// is taken. Addr and AdminAddr return the address in use.
	AnyPort, AnyAdminPort bool
	// StateDirs are folders in one of which the gateway opens its socket for the verbs of
	// its user, see package instance. Without any it opens none.
	StateDirs []string
	// Store is the store that the gateway shares with its replicas in place of the configured one, for tests; nil if
	// there is none. It must seal its values.
	Store store.Store
	// DeadAfter is [replica.Options.DeadAfter], for tests; 0 for the default.
	DeadAfter time.Duration
	// Watch is called with the status of an upstream each time it changes, by one
	// goroutine at a time for each upstream. It must not block. It may be nil.
	Watch func(inspect.Upstream)
}

// Gateway is one running gateway.
type Gateway struct {
	cfg   *config.Config // of the start; read only for keys that a reload does not apply
	demo  bool
	stdio bool // listens nowhere
	// inProcess is Options.InProcess.
	inProcess bool
	// profile is Options.Profile.
	profile string
	// onlyClient is the client of RunStdio, nil otherwise.
	onlyClient *upstream.OnlyClient
	version    string
	log        *zap.Logger // masks the secrets of the configuration
	ratelog    *ratelog.Logger
	secrets    *mask.Secrets

	info wire.Raw // serverInfo toward clients

	registry        *prometheus.Registry
	metrics         *metrics
	upstreamMetrics *connector.Metrics
	routerMetrics   *router.Metrics
	resultMetrics   *results.Metrics

	sealer  *bridge.Sealer // seals request states for the router and the front end
	replica string         // names this process in request states, and among the replicas
	sharing *sharing       // with other replicas, nil without a store

	// loopDetector knows the gateways before and behind this one. configMarks identify the
	// configuration files of the gateways that started one another, this one last.
	loopDetector *upstream.LoopDetector
	configMarks  []string

	docs          catalog.Docs      // of all tables
	embeddings    *embeddings.Store // nil if none are configured
	state         *statedir.Dir
	gatherSlots   connector.GatherSlots // of lazy upstreams
	generation    atomic.Pointer[generation]
	router        *router.Router
	subscriptions *router.Subscriptions
	front         *frontend.Server
	adminGuard    atomic.Pointer[origin.Guard]
	epochs        *epochs
	loggerLevel   *zap.AtomicLevel  // of log; nil if it cannot be changed
	logLevel      atomic.Int64      // the most verbose wire.Level that a client wants
	exporter      *tracing.Exporter // nil without telemetry.otlp
	audit         *telemetry.Audit  // nil if none is configured

	auth *auth.Authenticator // nil without authentication
	// endpoints are those of the generation in force, from the moment on when its profiles
	// have tables.
	endpoints atomic.Pointer[endpoint.Set]
	certs     *tlsfiles.Files // nil without TLS
	certsTold atomic.Int64    // the last time of certs.Renewed that an answer to a reload has said, in nanoseconds

	latest latest.Principals // the latest credentials of each principal

	store *shared // the configured store, nil with kind memory

	results resultStore // long results of tools, for reading on

	grants *openedGrants    // of principals, for upstreams with auth.kind user
	web    *credentials.Web // the pages on which principals give grants

	public *webui.Console // the pages for people at the address of MCP, nil for none; set by serve

	mcp, admin net.Listener

	watch     func(inspect.Upstream) // may be nil
	inspector *inspect.Inspector
	calls     inspect.CallLog // for the console

	// started is closed when every upstream has ended its first attempt to connect, or
	// startup_wait has passed.
	started  chan struct{}
	draining atomic.Bool

	group *errgroup.Group // of all goroutines; set when Run begins

	stateDirs  []string // of the socket for verbs
	born       time.Time
	unmatched  atomic.Pointer[unmatchedGlobs]     // see unmatchedRestrictions
	lastReload atomic.Pointer[inspect.LastReload] // nil before the first
	lastChange atomic.Pointer[inspect.LastReload] // the last that changed something, or nil

	configSource Source
	reloadQueue  *reloadQueue
	principals   *personal.Principals

	// The control loop receives from wakeups, reloads and flushes, whose channels it closes
	// when it has remembered what upstreams offer. It sends to swapped, and closes
	// controlEnded at its end.
	wakeups      chan struct{} // capacity 1
	flushes      chan chan struct{}
	rebuildAll   atomic.Bool // whether a wakeup is about all upstreams, or only about tables of principals
	reloads      chan *reloadRequest
	swapped      chan struct{} // capacity 1: there is a new table
	controlEnded chan struct{}
	control      controlState
}

// New makes a gateway and opens its addresses, so that the caller knows them before Run.
// A gateway that is not run must be closed. If an upstream is the gateway itself, the
// error is config.Errors.
func New(o Options) (*Gateway, error) {
	secrets := &mask.Secrets{KeyPrefix: auth.KeyPrefix}
	secrets.Learn(o.Config.Secrets(os.LookupEnv))
	registry, replica := telemetry.NewRegistry(), rand.Text()
	var g *Gateway
	exporter, err := newExporter(&o, secrets, registry, replica, func() time.Duration { return g.generation.Load().cfg.Telemetry.Slow })
	if err != nil {
		return nil, err
	}
	if exporter != nil {
		o.Logger = o.Logger.WithOptions(zap.WrapCore(exporter.WrapCore))
	}
	o.Logger = o.Logger.WithOptions(zap.WrapCore(secrets.WrapCore))
	g = &Gateway{
		exporter: exporter,
		secrets:  secrets,
		cfg:      o.Config, demo: o.Demo, stdio: o.Stdio || o.InProcess, inProcess: o.InProcess, profile: o.Profile, version: o.Version, log: o.Logger, ratelog: ratelog.New(o.Logger), watch: o.Watch,
		registry:        registry,
		metrics:         newMetrics(o.Version),
		upstreamMetrics: connector.NewMetrics(),
		routerMetrics:   router.NewMetrics(),
		resultMetrics:   results.NewMetrics(),
		epochs:          newEpochs(),
		sealer:          bridge.NewSealer(o.Config.Bridge.SealKeys()...),
		replica:         replica,
		started:         make(chan struct{}),
		control:         controlState{loggedFindings: map[string]map[uint64]bool{}},
		wakeups:         make(chan struct{}, 1),
		flushes:         make(chan chan struct{}),
		swapped:         make(chan struct{}, 1),
		reloads:         make(chan *reloadRequest),
		controlEnded:    make(chan struct{}),
		configSource:    o.Source,
		stateDirs:       o.StateDirs,
		born:            time.Now(),
		reloadQueue:     newReloadQueue(),
		loggerLevel:     o.LogLevel,
		gatherSlots:     connector.NewGatherSlots(maxGathering),
	}
	g.principals = personal.New(personal.Options{
		Routes: func() *router.Routes { return g.router.Routes() }, Swap: func(r *router.Routes) { g.router.Swap(r) },
		Wake: g.wakeControl, Ended: g.controlEnded, SessionIdle: o.Config.Limits.SessionIdle,
	})
	if o.Stdio {
		g.onlyClient = upstream.NewOnlyClient()
	}
	if o.Demo { // nothing about the demo is worth keeping
		g.state = statedir.Open("", zap.NewNop())
	} else {
		g.state = statedir.Open(o.Config.StateDir, o.Logger)
	}
	g.inspector = inspect.New(inspected{g})
	g.info = serverInfo(o.Version)
	g.embeddings = g.newEmbeddings()
	if g.store = g.openStore(); g.store != nil {
		o.Store = g.store
	}
	if o.Store != nil {
		g.share(o.Store, o.DeadAfter)
	}
	g.results = g.newResults(o.Store)
	g.grants = g.newGrants(o.Store)
	if err := g.open(&o); err != nil {
		g.store.close()
		g.grants.close()
		g.stopExporter()
		return nil, err
	}
	return g, nil
}

// open makes the parts of the gateway and opens its addresses.
func (g *Gateway) open(o *Options) error {
	if g.store != nil {
		if err := CheckStoreTLS(g.cfg); err != nil {
			return err
		}
	}
	if err := g.detectLoops(o.Source.File); err != nil {
		return err
	}
	if err := g.assemble(); err != nil {
		return err
	}
	if g.stdio {
		return nil
	}
	var err error
	if o.Config.TLS.On() {
		if g.certs, err = newCertificates(o.Config, o.Logger); err != nil {
			return err
		}
	}
	if err := g.openAudit(); err != nil {
		return err
	}
	if err := g.listen(o.AnyPort, o.AnyAdminPort); err != nil {
		g.closeAudit()
		return err
	}
	return nil
}

// assemble makes the parts of the gateway, from the upstreams to the front end.
func (g *Gateway) assemble() error {
	first, err := g.newGeneration(g.cfg, nil)
	if err != nil {
		return err
	}
	g.generation.Store(first)
	g.endpoints.Store(first.Endpoints)
	g.control.inUse = first.connections()
	if g.web, err = g.newWeb(); err != nil {
		return err
	}
	o := router.Options{
		Started: g.started, Logger: g.log, Metrics: g.routerMetrics,
		Sealer: g.sealer, Audit: g.newAudit(), OnNonconforming: g.nonconforming, OnFailed: g.callFailed, Mask: g.secrets.Mask, Watcher: callWatcher{g}, Latest: g.latest.Latest,
		OwnTools: g.ownTools(), Results: g.results, Tracer: g.tracer(),
	}
	if g.sharing != nil {
		o.Tokens = g.sharing.tokens
		o.SharedLimits = g.sharing.limits
		o.TaskBook = g.sharing.tasks
	}
	routes := g.buildRoutes(first, snapshotsOf(g.control.inUse), time.Now(), g.principals.Begin())
	g.router = router.New(o, routes)
	g.control.announced = maps.Collect(routes.Tables())
	g.subscriptions = router.NewSubscriptions(g.router)
	frontMetrics, authMetrics := frontend.NewMetrics(), auth.NewMetrics()
	if g.auth, err = clientauth.New(g.cfg, authMetrics, g.endpoints.Load); err != nil {
		return err
	}
	g.front = frontend.New(g.frontendOptions(frontMetrics))
	if g.sharing != nil {
		g.sharing.serve(g.front, g.heardElicited, g.grantChangedElsewhere)
		g.handlePassed()
		g.registry.MustRegister(g.sharing.metrics.Collectors()...)
	}
	g.setAdminGuard(g.cfg)
	for _, c := range [][]prometheus.Collector{
		g.metrics.collectors(), g.upstreamMetrics.Collectors(), g.routerMetrics.Collectors(), g.resultMetrics.Collectors(), frontMetrics.Collectors(), authMetrics.Collectors(), {expiries{g}},
	} {
		g.registry.MustRegister(c...)
	}
	return nil
}

func (g *Gateway) frontendOptions(m *frontend.Metrics) frontend.Options {
	o := frontend.Options{
		Handler: callHandler{g.router, g.loopDetector, g.epochs, g.onlyClient},
		Info:    g.info,
		Limits: frontend.Limits{
			JSON:        wire.Limits{Depth: g.cfg.Limits.MaxDepth},
			MaxMessage:  int(g.cfg.Limits.MaxMessage),
			MaxSessions: g.cfg.Limits.MaxSessions,
			SessionIdle: g.cfg.Limits.SessionIdle,
		},
		Settings:         g.settingsOf(g.cfg),
		LoopbackListener: origin.IsLoopbackHost(g.cfg.Listen),
		Logger:           g.log,
		Metrics:          m,
		HeaderParams:     g.headerParams,
		Authenticate:     g.authenticate,
		Subscriptions:    g.subscriptions,
		Tasks:            g.router,
		Tracer:           g.tracer(),
		Sessions:         frontend.Sessions{Keys: g.cfg.Bridge.SealKeys()},
		Parking:          frontend.Parking{Permit: g.router.PermitRetry, Sealer: g.sealer, Replica: g.replica},
		Events:           frontend.Events{LogLevel: g.setLogLevel, SessionEnded: g.sessionEnded, RootsChanged: g.rootsChanged},
	}
	if g.sharing != nil {
		g.sharing.options(&o.Sessions)
		o.Parking.Pass = g.passRetry
	}
	if g.onlyClient != nil {
		o.Events.SessionReady = g.onlyClient.Set
	}
	if g.auth != nil {
		o.ScopeChallenge = g.auth.ScopeChallenge
	}
	return o
}

// serverInfo returns serverInfo toward clients.
func serverInfo(version string) wire.Raw {
	info := wire.SetMember(wire.Raw(`{}`), "name", wire.String(productName))
	info = wire.SetMember(info, "title", wire.String("MCP gateway"))
	return wire.SetMember(info, "version", wire.String(version))
}

// AuthModes returns the ways in which clients may authenticate.
func (g *Gateway) AuthModes() []config.AuthMode { return g.cfg.Auth.Mode }

// UpstreamNames returns the names of the upstreams, separated by commas.
func (g *Gateway) UpstreamNames() string {
	entries := g.generation.Load().entries
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return strings.Join(names, ", ")
}

// ProfileNames returns the names of the profiles, that of the default one first.
func (g *Gateway) ProfileNames() []string { return g.endpoints.Load().Names() }

// Run serves until ctx ends, then drains: event streams end immediately, calls get drain_timeout. It returns when all
// goroutines have ended. The error is nil unless serving failed.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.Close()
	ui := g.newConsoles()
	return g.runAll(ctx, func(life context.Context) error {
		g.serveInstance(life)
		return g.serve(ctx, life, ui)
	})
}

// RunStdio serves one client on a pipe until in or ctx ends, then drains like Run.
func (g *Gateway) RunStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	defer g.Close()
	if err := g.openAudit(); err != nil {
		return err
	}
	return g.runAll(ctx, func(life context.Context) error {
		g.serveInstance(life)
		return g.serveStdio(ctx, life, in, out)
	})
}

// runAll runs all parts of the gateway for as long as serve runs.
func (g *Gateway) runAll(ctx context.Context, serve func(life context.Context) error) error {
	// Calls end after ctx, so their context outlives it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, life := errgroup.WithContext(life)
	g.group = group
	group.Go(func() error { return g.controlLoop(life) })
	group.Go(func() error { return g.followSubscriptions(life) })
	group.Go(func() error { return g.reloadLoop(life) })
	group.Go(func() error { return g.front.Run(life) })
	group.Go(func() error { return g.runEmbeddings(life) })
	group.Go(func() error { return g.runStore(life) })
	if g.sharing != nil {
		g.sharing.run(life, group)
		group.Go(func() error {
			g.grants.Run(life)
			return nil
		})
	}
	group.Go(func() error {
		defer end()
		if g.sharing != nil {
			// Others would take a replica that they have never seen for one that has ended.
			_ = g.sharing.replicas.Shown(life) // serve ends with life
		}
		return serve(life)
	})
	err := group.Wait()
	if g.sharing != nil {
		g.sharing.open.Clear() // the connections have ended their sessions
	}
	return err
}

// Close closes the addresses and the audit. Run calls it too.
func (g *Gateway) Close() {
	for _, l := range []net.Listener{g.mcp, g.admin} {
		if l != nil {
			_ = l.Close() // the only error says that the server has closed it already
		}
	}
	g.closeAudit()
	g.grants.close()
	g.results.Close()
	g.stopExporter()
}

// headerParams returns the parameters that calls of a tool mirror into headers.
func (g *Gateway) headerParams(p *call.Principal, client *call.Client, public string) []wire.HeaderParam {
	return g.router.HeaderParams(p, client, public)
}

// setLogLevel tells the upstreams how verbose their log messages have to be.
func (g *Gateway) setLogLevel(level wire.Level) {
	g.logLevel.Store(int64(level))
	for c := range g.generation.Load().connections() {
		c.sessions.SetLogLevel(level)
	}
}

// currentLogLevel returns the level that was last sent to the upstreams.
func (g *Gateway) currentLogLevel() wire.Level { return wire.Level(g.logLevel.Load()) }
