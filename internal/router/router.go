package router

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// Upstream answers calls under native names and URIs. The errors are a *wire.Error or that of
// ctx.
type Upstream interface {
	// Session returns the session that calls of c's client use. The calls that Do gets
	// name it in their member Session.
	Session(ctx context.Context, c *call.Call) (string, error)
	Do(ctx context.Context, c *call.Call) (call.Result, error)
}

// Routes is the state of the gateway that one call uses. It is immutable.
type Routes struct {
	Table *catalog.Table // of the default profile
	// Profiles are the tables of the other profiles, by name.
	Profiles  map[string]*catalog.Table
	Upstreams map[string]Upstream // by name, for every part of the table
	// Subscribers are the upstreams that accept subscriptions, by name.
	Subscribers map[string]Subscriber
	Bridge      BridgeSettings
	// Slow is the time from which on calls are logged with their stages; 0 logs none.
	Slow time.Duration
	// Results are the rules about results of tools by profile, for the profiles that have any.
	// If it is nil, calls have no cost for it.
	Results map[string]ResultRules
	// PrincipalTables are the tables of principals for which an upstream lists different items. If no
	// upstream does, it is nil, and calls have no cost for it.
	PrincipalTables PrincipalTables
}

// Granter is an Upstream that each principal has to grant access to.
type Granter interface {
	// NeedsGrant reports whether calls of a principal are answered with a request for a
	// grant.
	NeedsGrant(who *call.Principal) bool
	// GrantRequest returns an Upstream that answers every call with a request for a grant.
	GrantRequest() Upstream
}

// needsGrant reports whether an upstream needs a grant of c's principal. The gateway does not
// know then what the upstream would list for them.
func (r *Routes) needsGrant(upstream string, c *call.Call) bool {
	g, ok := r.Upstreams[upstream].(Granter)
	return ok && g.NeedsGrant(c.Principal)
}

// PrincipalTables are the tables of principals for which an upstream lists different items. The
// methods may be called concurrently.
type PrincipalTables interface {
	// Gather makes later routes contain the items that upstreams list for c's principal. It may wait
	// for them. The error is that of ctx.
	Gather(ctx context.Context, c *call.Call) error
	// Table returns the table that a principal sees in place of the common one, nil for
	// none.
	Table(who *call.Principal) *catalog.Table
}

// TableFor returns the table that a principal sees in its profile. In a profile that does not
// exist, or no longer, it is empty.
func (r *Routes) TableFor(who *call.Principal) *catalog.Table {
	if r.PrincipalTables != nil {
		if t := r.PrincipalTables.Table(who); t != nil {
			return t
		}
	}
	return r.TableIn(who.Profile)
}

// TableIn returns the common table of a profile.
func (r *Routes) TableIn(profile string) *catalog.Table {
	if profile == "" {
		return r.Table
	}
	if t := r.Profiles[profile]; t != nil {
		return t
	}
	return noTable()
}

// Tables iterates over the common tables of all profiles: first the default one, "".
func (r *Routes) Tables() iter.Seq2[string, *catalog.Table] {
	return func(yield func(string, *catalog.Table) bool) {
		if !yield("", r.Table) {
			return
		}
		for profile, t := range r.Profiles {
			if !yield(profile, t) {
				return
			}
		}
	}
}

// noTable returns a table without anything.
var noTable = sync.OnceValue(func() *catalog.Table {
	return catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Deny})}, nil)
})

// view returns what a client of a principal sees.
func (r *Routes) view(who *call.Principal, client *call.Client) *catalog.View {
	return r.TableFor(who).View(who, client)
}

// BridgeSettings configure questions to users and the states between rounds.
type BridgeSettings struct {
	// StateTTL is the lifetime of a sealed request state of an upstream. The default is 24h.
	StateTTL time.Duration
	// AskTimeout is how long a client may take to answer a question. The default is 5m.
	AskTimeout time.Duration
	// Unlabeled omits the name of the upstream at the beginning of its questions to users.
	Unlabeled bool
}

const (
	defaultStateTTL   = 24 * time.Hour
	defaultAskTimeout = 5 * time.Minute
)

// bridgeSettings returns the settings with their defaults.
func (r *Routes) bridgeSettings() BridgeSettings {
	t := r.Bridge
	t.StateTTL = cmp.Or(t.StateTTL, defaultStateTTL)
	t.AskTimeout = cmp.Or(t.AskTimeout, defaultAskTimeout)
	return t
}

// Options configure a Router.
type Options struct {
	// Started is closed when every upstream has ended its first attempt to connect, or the
	// time for that is over. Before, lists wait for the upstreams of which the caller may see
	// something, and calls to unknown names wait for the upstreams that may have them. After,
	// lists wait only while the caller could see nothing at all.
	Started <-chan struct{}
	// Sealer seals the request states of upstreams. The default has a random key.
	Sealer *bridge.Sealer
	// Tokens prevent that a consent is used twice. The default remembers them in memory.
	Tokens OneTimeTokens
	// SharedLimits count the calls of all replicas together. It is optional. Without it, and while it
	// fails, the router counts its own calls.
	SharedLimits SharedLimits
	// TaskBook keeps the tasks of all replicas. It is optional.
	TaskBook TaskBook
	// OwnTools answers calls of the gateway's own items. It is required if a table has any.
	OwnTools OwnTools
	// Results keeps long results. It is required if Routes have rules with a maximum.
	Results results.Store
	// Tracer makes a span of each call. It is optional, and costs nothing without.
	Tracer call.Tracer
	// Audit records decisions and calls. It is optional and costs nothing without.
	Audit *Audit
	// OnNonconforming is called with each answer of an upstream that violates the
	// specification, before the call ends. It is optional.
	OnNonconforming func(Nonconforming)
	// OnFailed is called with each call that an upstream answers with an error, or does not
	// answer. It is optional.
	OnFailed func(FailedCall)
	// Mask returns a text of an upstream without secrets of the configuration, for the log, the
	// audit and the status. It is optional.
	Mask func(text string) string
	// Watcher receives calls while somebody looks at them. It is optional, and costs a call one
	// question while nobody looks.
	Watcher Watcher
	// Latest returns a principal with its latest credentials. Subscriptions, tasks and
	// calls that run judge with them what they bring later. Nil: the credentials of the
	// request.
	Latest  func(*call.Principal) *call.Principal
	Logger  *zap.Logger
	Metrics *Metrics
}

// FailedCall is a call that an upstream answered with an error or did not answer, as the log
// has it.
type FailedCall struct {
	Upstream, Method string
	Item             string // "" if the client may have written a part of its name
	Request          string // the request id
	Reason           string
}

// Router forwards calls under public names to upstreams.
type Router struct {
	now     atomic.Pointer[current]
	started <-chan struct{}
	log     *zap.Logger
	ratelog *ratelog.Logger // for lines that clients can cause
	metrics *Metrics

	sealer          *bridge.Sealer
	elicitations    bridge.Elicitations
	tasks           taskRegistry
	book            TaskBook // nil for none
	limits          limiter
	sharedLimits    SharedLimits // nil for none
	full            fullLimits
	tokens          OneTimeTokens
	ownTools        OwnTools
	results         results.Store
	serve           func(context.Context, *call.Call) (call.Result, logFields, error) // handleRecorded, which the tables of stages cannot refer to
	loggedOnce      logOnce
	waits           taskWaiters
	polls           *taskPolls
	early           earlyLists
	firstWait       firstWait
	audit           *Audit
	tracer          call.Tracer         // nil for none
	onNonconforming func(Nonconforming) // nil for none
	onFailed        func(FailedCall)    // nil for none
	mask            func(string) string // never nil
	watcher         Watcher             // nil for none
	latest          func(*call.Principal) *call.Principal
}

// current are the routes that new calls use.
type current struct {
	*Routes
	replaced chan struct{} // closed when they were replaced
}

func newCurrent(r *Routes) *current { return &current{r, make(chan struct{})} }

// New returns a Router with these routes.
func New(o Options, first *Routes) *Router {
	r := &Router{
		started: o.Started, log: o.Logger, ratelog: ratelog.New(o.Logger), metrics: o.Metrics,
		sealer:          o.Sealer,
		limits:          limiter{now: time.Now},
		sharedLimits:    o.SharedLimits,
		tokens:          o.Tokens,
		tasks:           taskRegistry{timed: o.TaskBook != nil},
		book:            o.TaskBook,
		ownTools:        o.OwnTools,
		results:         o.Results,
		audit:           o.Audit,
		tracer:          o.Tracer,
		onNonconforming: o.OnNonconforming,
		onFailed:        o.OnFailed,
		mask:            o.Mask,
		watcher:         o.Watcher,
		polls:           newTaskPolls(),
		latest:          o.Latest,
	}
	if r.tokens == nil {
		r.tokens = newMemoryTokens()
	}
	if r.sealer == nil {
		r.sealer = bridge.NewSealer()
	}
	if r.mask == nil {
		r.mask = func(text string) string { return text }
	}
	if r.latest == nil {
		r.latest = func(p *call.Principal) *call.Principal { return p }
	}
	r.serve = r.handleRecorded
	r.now.Store(newCurrent(first))
	return r
}

// Swap replaces the routes for new calls, and returns the routes before.
func (r *Router) Swap(next *Routes) *Routes {
	r.early.mu.Lock()
	old := r.now.Swap(newCurrent(next))
	r.early.mu.Unlock()
	close(old.replaced)
	return old.Routes
}

// Routes returns the current routes.
func (r *Router) Routes() *Routes { return r.now.Load().Routes }

// Handle answers one call, under public names and in the view of its principal. The error is a
// *wire.Error or that of ctx.
func (r *Router) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	res, _, err := r.handleRecorded(ctx, c)
	return res, err
}

// handleRecorded answers one call, and has it in the log, the metrics and the audit.
func (r *Router) handleRecorded(ctx context.Context, c *call.Call) (call.Result, logFields, error) {
	begin := time.Now()
	r.beginTrace(c, begin)
	res, log, err := r.handle(ctx, c)
	log.endedEarly(ctx, c, err)
	log.unaudited(err)
	duration := time.Since(begin)
	exported := r.endTrace(c, &log, begin, duration, res, err)
	if r.watched() {
		r.watch(c, &log, begin, duration, res.Raw, err)
	}
	if log.own {
		r.observeOwn(c, &log, duration, err)
		return res, log, err
	}
	r.observe(c, &log, duration, exported, res.Raw, err)
	if r.audit != nil {
		if public, ok := auditedName(c); ok {
			if public != "" && log.item != "" {
				public = log.item // the name without the profile
			}
			r.auditEnd(c, public, &log, res, duration, err)
		}
	}
	return res, log, err
}

// handle answers one call, and returns the fields of its log line.
func (r *Router) handle(ctx context.Context, c *call.Call) (call.Result, logFields, error) {
	if c.Method == wire.MethodDiscover {
		raw, err := r.describe(ctx, c)
		return call.Result{Raw: raw}, logFields{}, err
	}
	if err := r.gather(ctx, c); err != nil {
		return call.Result{}, logFields{}, err
	}
	switch m := wire.MethodOf(c.Method); m.Kind {
	case wire.KindList:
		switch ref, names, err := namespace.ItemRefOf(c.Method, c.Params); {
		case err != nil:
			return call.Result{}, logFields{}, err
		case names:
			return r.children(ctx, c, ref)
		}
		return r.list(ctx, c, call.KindOf(m.Item))
	case wire.KindMetadata:
		return r.metadata(ctx, c)
	case wire.KindCall, wire.KindComplete:
		f := r.newForwarding(c)
		res, err := f.run(ctx, callStages)
		if c.Depth > 0 && (f.sent || f.log.own) { // otherwise nothing of an upstream is in the answer
			f.log.used = f.usedItems()
		}
		return res, f.log, err
	case wire.KindTask:
		return r.aboutTask(ctx, c)
	default:
		return call.Result{}, logFields{}, wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", clip(c.Method))
	}
}

// gather gathers the lists of c's principal if upstreams list different items to
// principals.
func (r *Router) gather(ctx context.Context, c *call.Call) error {
	if tables := r.Routes().PrincipalTables; tables != nil {
		return tables.Gather(ctx, c)
	}
	return nil
}

// describe answers server/discover. An upstream that is not connected declares what it did
// when it was last seen: a legacy client cannot be notified of new capabilities later.
func (r *Router) describe(ctx context.Context, c *call.Call) (wire.Raw, error) {
	view, err := r.awaitDescriptions(ctx, c)
	if err != nil {
		return nil, err
	}
	out := wire.SetMember(wire.Raw(`{}`), "capabilities", declareTasks(c, view, view.Capabilities()))
	if text := view.Instructions(); text != "" {
		out = wire.SetMember(out, "instructions", wire.String(text))
	}
	return out, nil
}

// list answers from the table, without asking an upstream.
func (r *Router) list(ctx context.Context, c *call.Call, kind call.Kind) (call.Result, logFields, error) {
	view, err := r.awaitView(ctx, c)
	if err != nil {
		return call.Result{}, logFields{}, err
	}
	cursor, err := cursorOf(c)
	if err != nil {
		return call.Result{}, logFields{}, err
	}
	page, tally, rpcErr := view.Page(kind, c.Client.Revision, cursor, time.Now())
	if rpcErr != nil {
		return call.Result{}, logFields{}, rpcErr
	}
	r.metrics.countDownlevel(tally)
	return page, logFields{}, nil
}

// cursorOf returns the cursor that a client sent, "" for none. Some clients write null for
// none.
func cursorOf(c *call.Call) (string, error) {
	cursor := wire.ValueOf(c.Params).Get("cursor")
	if k := cursor.Kind(); k != 0 && k != '"' && k != 'n' {
		return "", wire.Errorf(wire.CodeInvalidParams, "invalid params: cursor must be a string, the nextCursor of the page before")
	}
	return cursor.Str(), nil
}

// Permit returns the error that a call would get at this moment, nil for a call that may be
// made. It asks nobody and does not wait.
func (r *Router) Permit(c *call.Call) *wire.Error {
	return r.permit(c, nil)
}

// permit is Permit, and keeps the decision for the log, which may be nil.
func (r *Router) permit(c *call.Call, log *logFields) *wire.Error {
	ref, _, err := namespace.ItemRefOf(c.Method, c.Params)
	if err != nil {
		return wire.Errorf(wire.CodeInvalidParams, "%s", err)
	}
	routes := r.Routes()
	view := routes.view(c.Principal, c.Client)
	target, ok := view.Resolve(ref.Kind, ref.Name)
	switch {
	case !ok:
		if suspects := view.UnavailableFor(ref.Kind, ref.Name); len(suspects) > 0 {
			if err := r.decideUnavailable(auditResume, c, view, ref, suspects, log); err != nil {
				rpcErr, _ := errors.AsType[*wire.Error](err)
				return rpcErr
			}
			return catalog.UnavailableError(suspects)
		}
		return r.unknown(auditResume, c, view, ref, target, log)
	case target.Part.Own():
		return nil
	}
	d, err := r.decide(auditResume, c, itemOf(&target), target.Policy, log)
	if err == nil && d.Denied() {
		err = refused(target, &d, log)
	}
	rpcErr, _ := errors.AsType[*wire.Error](err)
	return rpcErr
}

// PermitRetry is Permit for a request that continues a call, which another replica may have begun. Like
// a call, it waits for the lists of its principal, and for an upstream that is on its first attempt to
// connect. The error is a *wire.Error or that of ctx.
func (r *Router) PermitRetry(ctx context.Context, c *call.Call) error {
	if err := r.gather(ctx, c); err != nil {
		return err
	}
	if ref, _, err := namespace.ItemRefOf(c.Method, c.Params); err == nil && !r.hasStarted() {
		if _, err := r.lookUp(ctx, c, ref); err != nil {
			return err
		}
	}
	if err := r.Permit(c); err != nil {
		return err
	}
	return nil
}

func (r *Router) hasStarted() bool {
	select {
	case <-r.started:
		return true
	default:
		return false
	}
}

// clip bounds a client's text before an answer repeats it.
func clip(s string) string { return plaintext.Clip(s, 128) }

// HeaderParams returns the parameters that calls of a tool mirror into headers, as the client sees
// the tool, nil for a tool that is not in their view. The front end checks headers against them.
func (r *Router) HeaderParams(who *call.Principal, client *call.Client, public string) []wire.HeaderParam {
	table := r.Routes().TableFor(who)
	if !table.HasHeaderParams(public) { // nearly always: no view is needed
		return nil
	}
	t, ok := table.View(who, client).Resolve(call.Tool, public)
	if !ok || t.Entry == nil {
		return nil
	}
	return t.Entry.HeaderParams
}
