package router

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// Upstream answers calls whose names and URIs are native. The errors are a
// *wire.Error or that of ctx.
type Upstream interface {
	// Session names the session that calls of c's client go through, for the
	// member of that name of the calls that Do gets.
	Session(ctx context.Context, c *call.Call) (string, error)
	Do(ctx context.Context, c *call.Call) (call.Result, error)
}

// Routes is what one call sees of the gateway. It is immutable.
type Routes struct {
	Table     *catalog.Table
	Upstreams map[string]Upstream // by name; every part of the table has one
	// Subscribers are the upstreams by name once more, for subscriptions.
	Subscribers map[string]Subscriber
	Terms       Terms
	// PrincipalTables are the tables of principals to whom an upstream lists items of
	// their own. Nil, where no upstream does, costs a call nothing.
	PrincipalTables PrincipalTables
}

// Granter is an Upstream that wants a grant of each principal.
type Granter interface {
	// Wants reports whether calls of a principal lead to a question for one.
	Wants(who *call.Principal) bool
	// Question is an Upstream that asks for one and does nothing else.
	Question() Upstream
}

// wants reports whether an upstream wants a grant of c's principal: what it would list
// for them is not known then.
func (r *Routes) wants(upstream string, c *call.Call) bool {
	g, ok := r.Upstreams[upstream].(Granter)
	return ok && g.Wants(c.Principal)
}

// PrincipalTables are the tables of principals to whom an upstream lists items of their
// own. The methods may be called by many goroutines at once.
type PrincipalTables interface {
	// Gather has later routes hold what upstreams list for c's principal, for which it
	// may wait. The error is that of ctx.
	Gather(ctx context.Context, c *call.Call) error
	// Table returns the table that a principal sees in place of the common one, nil for
	// none.
	Table(who *call.Principal) *catalog.Table
}

// TableFor returns the table that a principal sees.
func (r *Routes) TableFor(who *call.Principal) *catalog.Table {
	if r.PrincipalTables != nil {
		if t := r.PrincipalTables.Table(who); t != nil {
			return t
		}
	}
	return r.Table
}

// view returns what a client of a principal sees.
func (r *Routes) view(who *call.Principal, client *call.Client) *catalog.View {
	return r.TableFor(who).View(who, client)
}

// Terms are what a configuration says of questions and of states between rounds.
type Terms struct {
	// StateTTL is how long a sealed request state of an upstream is good: 24h.
	StateTTL time.Duration
	// AskTimeout is how long a client may take to answer an ask: 5m.
	AskTimeout time.Duration
	// Unlabelled leaves out the name of the upstream at the beginning of what it
	// asks users.
	Unlabelled bool
}

const (
	defaultStateTTL   = 24 * time.Hour
	defaultAskTimeout = 5 * time.Minute
)

// terms returns the terms with their defaults.
func (r *Routes) terms() Terms {
	t := r.Terms
	t.StateTTL = cmp.Or(t.StateTTL, defaultStateTTL)
	t.AskTimeout = cmp.Or(t.AskTimeout, defaultAskTimeout)
	return t
}

// Options say what a Router needs from the start.
type Options struct {
	// Settled is closed when every upstream has ended its first attempt to
	// connect, or the time for that is over. First lists wait for it where the
	// caller may see something of an upstream that is on its first attempt. Calls to
	// names that nobody has yet wait for the upstreams that may have them, and no
	// longer.
	Settled <-chan struct{}
	// Sealer wraps the request states of upstreams; none: one with a key of its
	// own.
	Sealer *bridge.Sealer
	// Tokens keep consents from being used twice; none: the process remembers.
	Tokens OneTimeTokens
	// Audit is the record of decisions and calls; none: there is none, and it
	// costs nothing.
	Audit *Audit
	// Nonconforming is told of each answer of an upstream that does not keep to the
	// specification, before the call of it ends; none: nobody is.
	Nonconforming func(Nonconforming)
	// Latest returns a principal with its latest credentials. Subscriptions, tasks and
	// calls that run judge with them what they bring later. Nil: the credentials of the
	// request.
	Latest  func(*call.Principal) *call.Principal
	Logger  *zap.Logger
	Metrics *Metrics
}

// Router takes calls with public names to upstreams.
type Router struct {
	now     atomic.Pointer[current]
	settled <-chan struct{}
	log     *zap.Logger
	ratelog *ratelog.Logger // for lines that clients can cause
	metrics *Metrics

	sealer          *bridge.Sealer
	elicitations    bridge.Elicitations
	tasks           taskBook
	limits          limiter
	tokens          OneTimeTokens
	said            saidOnce
	waits           taskWaits
	polls           *taskPolls
	early           earlyLists
	audit           *Audit
	onNonconforming func(Nonconforming) // nil for none
	latest          func(*call.Principal) *call.Principal
}

// current is the routes of this moment.
type current struct {
	*Routes
	replaced chan struct{} // closed when others are in their place
}

func newCurrent(r *Routes) *current { return &current{r, make(chan struct{})} }

// New returns a Router that sees first until the first Swap.
func New(o Options, first *Routes) *Router {
	r := &Router{
		settled: o.Settled, log: o.Logger, ratelog: ratelog.New(o.Logger), metrics: o.Metrics,
		sealer:          o.Sealer,
		limits:          limiter{now: time.Now},
		tokens:          o.Tokens,
		audit:           o.Audit,
		onNonconforming: o.Nonconforming,
		polls:           newTaskPolls(),
		latest:          o.Latest,
	}
	if r.tokens == nil {
		r.tokens = newMemoryTokens()
	}
	if r.sealer == nil {
		r.sealer = bridge.NewSealer()
	}
	if r.latest == nil {
		r.latest = func(p *call.Principal) *call.Principal { return p }
	}
	r.now.Store(newCurrent(first))
	return r
}

// Swap puts other routes in place for the calls that come from now on, and
// returns those that were there.
func (r *Router) Swap(next *Routes) *Routes {
	r.early.mu.Lock()
	old := r.now.Swap(newCurrent(next))
	r.early.mu.Unlock()
	close(old.replaced)
	return old.Routes
}

// Routes returns the current routes.
func (r *Router) Routes() *Routes { return r.now.Load().Routes }

// Handle answers one call: in the view of its principal, with public names in
// and out. The error is a *wire.Error or that of ctx.
func (r *Router) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	begin := time.Now()
	res, log, err := r.handle(ctx, c)
	duration := time.Since(begin)
	r.observe(c, log, duration, res.Raw, err)
	if r.audit != nil {
		if public, ok := audited(c); ok {
			r.audit.ended(c, public, log.upstream, res, duration, err)
		}
	}
	return res, err
}

// handle answers one call, and returns what the log says of it.
func (r *Router) handle(ctx context.Context, c *call.Call) (call.Result, logFields, error) {
	if c.Method == wire.MethodDiscover {
		return call.Result{Raw: r.describe(c)}, logFields{}, nil
	}
	if err := r.gather(ctx, c); err != nil {
		return call.Result{}, logFields{}, err
	}
	switch m := wire.MethodOf(c.Method); m.Kind {
	case wire.KindList:
		switch ref, names, err := namespace.RefOf(c.Method, c.Params); {
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
		return res, f.log, err
	case wire.KindTask:
		return r.aboutTask(ctx, c)
	default:
		return call.Result{}, logFields{}, wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", clip(c.Method))
	}
}

// gather sees to it that what upstreams list for c's principal alone is known.
func (r *Router) gather(ctx context.Context, c *call.Call) error {
	if tables := r.Routes().PrincipalTables; tables != nil {
		return tables.Gather(ctx, c)
	}
	return nil
}

// describe is what the merged server says of itself. It never waits: hosts give
// up on a slow initialize. The capabilities do not depend on which upstreams are
// there, because a legacy client cannot be told of new ones later.
func (r *Router) describe(c *call.Call) wire.Raw {
	view := r.Routes().view(c.Principal, c.Client)
	capabilities := wire.Raw(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}`)
	if ext := view.Extensions(); ext != nil {
		capabilities = wire.SetMember(capabilities, "extensions", ext)
	}
	out := wire.SetMember(wire.Raw(`{}`), "capabilities", declareTasks(c, view, capabilities))
	if text := view.Instructions(); text != "" {
		out = wire.SetMember(out, "instructions", wire.String(text))
	}
	return out
}

// list answers from the table; no upstream is asked.
func (r *Router) list(ctx context.Context, c *call.Call, kind call.Kind) (call.Result, logFields, error) {
	view, err := r.settle(ctx, c)
	if err != nil {
		return call.Result{}, logFields{}, err
	}
	cursor, err := cursorOf(c)
	if err != nil {
		return call.Result{}, logFields{}, err
	}
	page, tally, fault := view.Page(kind, c.Client.Revision, cursor, time.Now())
	if fault != nil {
		return call.Result{}, logFields{}, fault
	}
	r.metrics.lowered(tally)
	return call.Result{Raw: page}, logFields{}, nil
}

// cursorOf returns the cursor that a client sent, "" where it sent none. Some
// write null for none.
func cursorOf(c *call.Call) (string, error) {
	cursor := wire.ValueOf(c.Params).Get("cursor")
	if k := cursor.Kind(); k != 0 && k != '"' && k != 'n' {
		return "", wire.Errorf(wire.CodeInvalidParams, "invalid params: cursor must be a string, the nextCursor of the page before")
	}
	return cursor.Str(), nil
}

// Permit reports whether a call may be made at this moment: nil, or the error
// that a call of it would get. It asks nobody and waits for nothing.
func (r *Router) Permit(c *call.Call) *wire.Error {
	ref, _, err := namespace.RefOf(c.Method, c.Params)
	if err != nil {
		return wire.Errorf(wire.CodeInvalidParams, "%s", err)
	}
	routes := r.Routes()
	view := routes.view(c.Principal, c.Client)
	target, ok := view.Resolve(ref.Kind, ref.Name)
	if !ok {
		return r.unknown(auditResume, c, view, ref, target, nil)
	}
	d, err := r.decide(auditResume, c, itemOf(&target), target.Judgement, nil)
	if err == nil && d.Denied() {
		err = refused(target, &d)
	}
	fault, _ := errors.AsType[*wire.Error](err)
	return fault
}

func (r *Router) isSettled() bool {
	select {
	case <-r.settled:
		return true
	default:
		return false
	}
}

// clip bounds a client's text before an answer repeats it.
func clip(s string) string { return plaintext.Clip(s, 128) }

// Schema returns the input schema of a tool as the client sees it, nil when
// there is no such tool in their view. The front end checks headers against it.
func (r *Router) Schema(who *call.Principal, client *call.Client, public string) wire.Raw {
	t, ok := r.Routes().view(who, client).Resolve(call.Tool, public)
	if !ok || t.Entry == nil {
		return nil
	}
	return wire.ValueOf(t.Entry.Raw).Get("inputSchema").Raw()
}
