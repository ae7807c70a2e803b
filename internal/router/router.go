package router

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
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
	// Owners know the principals to whom upstreams list something of their own. Nil,
	// where no upstream does, costs a call nothing.
	Owners Owners
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

// Owners know the principals to whom upstreams list something of their own. The
// methods may be called by many goroutines at once.
type Owners interface {
	// Gather sees to it that routes to come have what upstreams list for c's
	// principal, for which it may wait. The error is that of ctx.
	Gather(ctx context.Context, c *call.Call) error
	// Table returns the table that a principal sees in place of the one of all
	// others, nil for none.
	Table(who *call.Principal) *catalog.Table
}

// TableFor returns the table that a principal sees.
func (r *Routes) TableFor(who *call.Principal) *catalog.Table {
	if r.Owners != nil {
		if t := r.Owners.Table(who); t != nil {
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

// terms returns the current terms, with their defaults.
func (r *Router) terms() Terms {
	t := r.Routes().Terms
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
	// Tickets keep consents from being used twice; none: the process remembers.
	Tickets Tickets
	// Audit is the record of decisions and calls; none: there is none, and it
	// costs nothing.
	Audit *Audit
	// Nonconforming is told of each answer of an upstream that does not keep to the
	// specification, before the call of it ends; none: nobody is.
	Nonconforming func(Nonconforming)
	Logger        *zap.Logger
	Metrics       *Metrics
}

// Router takes calls with public names to upstreams.
type Router struct {
	now     atomic.Pointer[current]
	settled <-chan struct{}
	log     *zap.Logger
	ratelog *ratelog.Logger // for lines that clients can cause
	metrics *Metrics

	sealer       *bridge.Sealer
	elicitations bridge.Elicitations
	tasks        taskBook
	limits       limiter
	tickets      Tickets
	said         saidOnce
	waits        taskWaits
	early        earlyLists
	audit        *Audit
	tell         func(Nonconforming) // nil for nobody
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
		sealer:  o.Sealer,
		limits:  limiter{now: time.Now},
		tickets: o.Tickets,
		audit:   o.Audit,
		tell:    o.Nonconforming,
	}
	if r.tickets == nil {
		r.tickets = newMemoryTickets()
	}
	if r.sealer == nil {
		r.sealer = bridge.NewSealer()
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
	var n noted
	res, upstream, err := r.handle(ctx, c, &n)
	duration := time.Since(begin)
	r.observe(c, upstream, duration, res.Raw, err, &n)
	if r.audit != nil {
		if public, ok := audited(c); ok {
			r.audit.ended(c, public, upstream, res, duration, err)
		}
	}
	return res, err
}

// handle also says which upstream answered, "" for none.
func (r *Router) handle(ctx context.Context, c *call.Call, n *noted) (call.Result, string, error) {
	if c.Method == wire.MethodDiscover {
		return call.Result{Raw: r.describe(c)}, "", nil
	}
	if err := r.gather(ctx, c); err != nil {
		return call.Result{}, "", err
	}
	switch m := wire.MethodOf(c.Method); m.Kind {
	case wire.KindList:
		if ref, is, err := namespace.RefOf(c.Method, c.Params); is || err != nil {
			return r.children(ctx, c, ref, err, n)
		}
		return r.list(ctx, c, call.KindOf(m.Item))
	case wire.KindMetadata:
		return r.metadata(ctx, c, n)
	case wire.KindCall, wire.KindComplete:
		return r.forward(ctx, c, n)
	case wire.KindTask:
		return r.task(ctx, c, n)
	default:
		return call.Result{}, "", wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", clip(c.Method))
	}
}

// gather sees to it that what upstreams list for c's principal alone is known.
func (r *Router) gather(ctx context.Context, c *call.Call) error {
	if owners := r.Routes().Owners; owners != nil {
		return owners.Gather(ctx, c)
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
func (r *Router) list(ctx context.Context, c *call.Call, kind call.Kind) (call.Result, string, error) {
	view, err := r.settle(ctx, c)
	if err != nil {
		return call.Result{}, "", err
	}
	cursor, err := cursorOf(c)
	if err != nil {
		return call.Result{}, "", err
	}
	page, tally, fault := view.Page(kind, c.Client.Revision, cursor, time.Now())
	if fault != nil {
		return call.Result{}, "", fault
	}
	r.metrics.lowered(tally)
	return call.Result{Raw: page}, "", nil
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

// depart finds what a call names, asks policy about it, and returns the journey
// there; nil with the error that the call gets otherwise. The name is that of the
// upstream, "" where there is none.
func (r *Router) depart(ctx context.Context, c *call.Call, ref namespace.Ref, n *noted) (j *journey, name string, err error) {
	routes, target, err := r.resolve(ctx, c, ref, n)
	if err != nil {
		return nil, "", err
	}
	name = target.Part.Upstream()
	d, err := r.decide(auditDecision, c, itemOf(&target), target.Judgement, n)
	switch {
	case err != nil:
		return nil, name, err
	case d.Effect == policy.Deny:
		return nil, name, refused(target, &d)
	}
	to := routes.Upstreams[name]
	if target.Presumed { // then it is a Granter: what is not known is not called
		to = to.(Granter).Question()
	}
	return &journey{
		r: r, c: c, ref: ref, to: to, space: target.Part.Space(), asked: target.Asked(), target: target,
		routes: routes, view: view(routes, c), decision: d,
	}, name, nil
}

// forward takes a call that names an item to the upstream that has it.
func (r *Router) forward(ctx context.Context, c *call.Call, n *noted) (call.Result, string, error) {
	ref, _, err := namespace.RefOf(c.Method, c.Params)
	if err == nil {
		err = argumentsOf(c)
	}
	if err != nil {
		return call.Result{}, "", err
	}
	j, name, err := r.depart(ctx, c, ref, n)
	if err != nil {
		return call.Result{}, name, err
	}
	if c.Method == wire.MethodComplete && j.veiled() {
		// Servers complete what they do not have to nothing: only what is listed is completed.
		return call.Result{}, name, notFound(c, j.view, ref)
	}
	// What needs a consent is not completed: the user would be asked at every key.
	if c.Method == wire.MethodComplete && (j.decision.Effect == policy.Confirm || !wire.ValueOf(j.target.Part.Capabilities()).Get("completions").Exists()) {
		// The gateway declares completions for all its upstreams.
		return call.Result{Raw: wire.Raw(`{"completion":{"values":[]}}`)}, name, nil
	}
	if refusal := j.refuseArguments(); refusal != nil {
		return call.Result{Raw: refusal}, name, nil
	}
	res, err := j.run(ctx, ref.With(j.target.Native))
	return res, name, j.veil(err)
}

// argumentsOf refuses arguments that are no object: conditions of policy, and what the
// audit leaves out, are about members. Some clients write null for none.
func argumentsOf(c *call.Call) error {
	switch given := wire.ValueOf(c.Params).Get("arguments"); {
	case !wire.MethodOf(c.Method).HasArguments, !given.Exists(), given.Kind() == '{', given.Kind() == 'n':
		return nil
	}
	return wire.Errorf(wire.CodeInvalidParams, "%s: params.arguments must be an object", c.Method)
}

// run sends the call with native names and brings back what the client gets.
func (j *journey) run(ctx context.Context, params wire.Raw) (call.Result, error) {
	params, st, err := j.unwrap(params)
	if err != nil {
		return call.Result{}, err
	}
	var asked *call.Result
	if st.Ticket != "" {
		asked, err = j.redeem(ctx, st)
	}
	if err == nil && asked == nil && !j.consented && needsConsent(j.c, &j.decision) {
		if st.Kind != 0 { // the round began before a consent was needed
			return call.Result{}, errState
		}
		asked, err = j.confirm(ctx)
	}
	if err != nil || asked != nil {
		return orNone(asked), err
	}
	limits, err := j.r.limit(j.c, j.target, &j.decision)
	if err != nil {
		return call.Result{}, err
	}
	defer limits.release()
	if j.session, err = j.to.Session(ctx, j.c); err != nil {
		return call.Result{}, err
	}
	down := j.c.With(params)
	down.Session = j.session
	down.Back = &backChannel{j.r, j.c.Back, j.target.Part, j.session, j.c.Principal, j.c.Client, limits}
	res, err := j.send(ctx, down)
	if err != nil {
		if rpc, ok := errors.AsType[*wire.Error](err); ok {
			err = j.r.cleanError(j.target.Part, j.space.Error(rpc, j.asked))
		}
		return call.Result{}, err
	}
	raw, err := j.finish(res)
	if err != nil {
		return call.Result{}, err
	}
	res.Raw = raw
	return res, nil
}

func orNone(r *call.Result) call.Result {
	if r == nil {
		return call.Result{}
	}
	return *r
}

// finish makes of what the upstream answered what the client gets.
func (j *journey) finish(res call.Result) (wire.Raw, error) {
	raw := res.Raw
	if j.c.Method == wire.MethodResourcesRead && isEmptyList(raw, "contents") && j.veiled() {
		return nil, notFound(j.c, j.view, j.ref)
	}
	if j.c.Method == wire.MethodResourcesList {
		raw = j.adopt(raw)
	}
	raw = j.space.Result(j.c.Method, raw, j.asked)
	raw, fault := j.r.conform(j.view.Subject(j.target, j.c.Method, res.Revision), j.target, raw)
	if fault != nil {
		return nil, fault
	}
	raw = j.enrich(j.r.cleanResult(j.target.Part, raw))
	raw, tally := downlevel.Result(j.c.Client.Revision, j.c.Method, raw)
	j.r.metrics.lowered(tally)
	return raw, nil
}

// view is what the caller sees of the table.
func view(routes *Routes, c *call.Call) *catalog.View {
	return routes.view(c.Principal, c.Client)
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
	if err == nil && d.Effect == policy.Deny {
		err = refused(target, &d)
	}
	fault, _ := errors.AsType[*wire.Error](err)
	return fault
}

// resolve finds what a call names in the caller's view. A name that nobody has
// may be one of an upstream that is on its first attempt: the call waits for that
// one, not for others.
func (r *Router) resolve(ctx context.Context, c *call.Call, ref namespace.Ref, n *noted) (*Routes, catalog.Target, error) {
	for {
		settled := r.isSettled() // before the routes: they are complete when it is set
		now := r.now.Load()
		view := now.view(c.Principal, c.Client)
		target, ok := view.Resolve(ref.Kind, ref.Name)
		if ok {
			return now.Routes, target, nil
		}
		suspects := view.Suspects(ref.Kind, ref.Name)
		switch {
		case len(suspects) == 1 && now.wants(suspects[0].Upstream, c):
			if target, ok = view.Presume(ref.Kind, ref.Name, suspects[0].Upstream); ok {
				return now.Routes, target, nil
			}
			return nil, target, catalog.UnavailableError(suspects)
		case len(suspects) == 0:
			return nil, target, r.unknown(auditDecision, c, view, ref, target, n)
		case settled || !slices.ContainsFunc(suspects, func(u catalog.Unavailable) bool { return u.Starting }):
			return nil, target, catalog.UnavailableError(suspects)
		}
		select {
		case <-now.replaced:
		case <-r.settled:
		case <-ctx.Done():
			return nil, target, ctx.Err()
		}
	}
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
