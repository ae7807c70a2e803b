package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// settleTimeout is how long a new session may settle before it gets the first call:
	// some servers ask for the roots first, and refuse calls before.
	settleTimeout = 500 * time.Millisecond
	// rootsGrace is how long a server may take to process the roots.
	rootsGrace = 50 * time.Millisecond
)

// sessionScope says who shares a session: one client, one principal, or all clients
// with one set of capabilities. A nil sessionScope is that of all clients. Its methods
// may be called concurrently.
type sessionScope struct {
	origin Origin
	// declared is what the session declares. It changes only between two
	// conversations, and only for the only client.
	declared atomic.Pointer[declaration]
	// only is the client whose session gathers the catalog too; nil: there may be
	// others.
	only *OnlyClient
	// gathers says that the session gathers the lists of its principal.
	gathers bool
	latest  atomic.Pointer[call.Principal] // the principal with the credentials that expire last
	outside Outside                        // may be nil
	// catalogSession is the session that gathers the catalog, if both are with one
	// server process; nil if each session has its own process.
	catalogSession *connector.Connector
	rootsAnswered  chan struct{} // capacity 1: the server has been told the roots

	mu            sync.Mutex
	calls         []*call.Call // that run, the youngest last
	rootsClient   *call.Client // the client of the principal whose roots count
	rootsAsked    bool         // the server has asked for roots, in this conversation or a former one
	announceRoots func()       // tells the server that the roots have changed
}

// declaration has the capabilities that a session declares to the server.
type declaration struct {
	capabilities wire.Raw
	roots        bool // the client's are relayed
}

// newOnlyClientScope returns the scope of the only client's session.
func newOnlyClientScope(o *Options) *sessionScope {
	p := &sessionScope{
		origin: Origin{Upstream: o.Name, Who: call.Local}, only: o.OnlyClient, gathers: true,
		outside: o.Outside, rootsAnswered: make(chan struct{}, 1),
	}
	p.declared.Store(&declaration{})
	return p
}

// declareFor waits for the only client and has the session declare what it can do:
// everything, if it is not known in time. Roots that are configured for a shared
// session go before the client's: they are what the server is confined to.
func (p *sessionScope) declareFor(ctx context.Context, o *Options) {
	if p == nil || p.only == nil {
		return
	}
	configured := len(o.Roots) > 0 && o.Sharing == Shared
	d := &declaration{roots: !configured}
	switch client := p.only.wait(ctx); {
	case client == nil:
		d.capabilities = wire.SetMember(protocol.GatewayCapabilities(false), "roots", wire.Raw(`{"listChanged":true}`))
	default:
		d.capabilities = protocol.RelayedCapabilities(client)
		d.roots = d.roots && client.Can("roots")
	}
	if configured {
		d.capabilities = wire.SetMember(d.capabilities, "roots", wire.Raw(`{}`))
	}
	p.declared.Store(d)
}

// role returns the role of the session's connector. The session of all clients, or of the
// only client, determines the state of the upstream.
func (p *sessionScope) role() connector.Role {
	switch {
	case p == nil || p.only != nil:
		return connector.GathersCatalog
	case p.gathers:
		return connector.GathersLists
	default:
		return connector.OnlyCalls
	}
}

// isOfOnePrincipal reports whether all calls of the session are of one principal.
func (p *sessionScope) isOfOnePrincipal() bool {
	return p != nil && (p.origin.Principal != "" || p.origin.Client != nil)
}

// client returns the client if it is the only one in the session, else nil.
func (p *sessionScope) client() *call.Client {
	if p.only != nil {
		return p.only.known()
	}
	return p.origin.Client
}

// currentOrigin returns the origin of messages of the server.
func (p *sessionScope) currentOrigin() Origin {
	o := p.origin
	if p.only != nil && !p.only.mayAsk() {
		return o
	}
	if c := p.client(); c != nil && c.Era() == wire.EraLegacy {
		o.Client = c // a modern client gets no messages outside its requests
	}
	return o
}

// addCall adds a running call, until the caller calls leave.
func (p *sessionScope) addCall(c *call.Call) (leave func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	if p.rootsClient == nil && p.origin.Principal != "" && reachable(c) && c.Client.Can("roots") {
		p.rootsClient = c.Client
		if p.rootsAsked && p.announceRoots != nil {
			p.announceRoots()
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = slices.DeleteFunc(p.calls, func(d *call.Call) bool { return c == d })
	}
}

// askRecipient returns the call that an ask outside the streams of calls belongs to.
// inFlight is the only candidate among the pending calls, nil for none.
func (p *sessionScope) askRecipient(method string, inFlight *call.Call) *call.Call {
	p.mu.Lock()
	if method == wire.MethodRootsList {
		p.rootsAsked = true // a client with roots that comes before the answer has to be announced
	}
	c, rooted := inFlight, p.rootsClient
	if c == nil {
		c = p.onlyCaller()
	}
	p.mu.Unlock()
	client := p.client()
	switch {
	case client == nil && p.origin.Principal == "":
		return inFlight // several clients may share the session
	case p.outside == nil:
	case method == wire.MethodRootsList && client != nil:
		return p.rootsOf(client, c)
	case method == wire.MethodRootsList && rooted != nil:
		return p.rootsOf(rooted, c)
	case client != nil && c == nil:
		return p.between(client)
	}
	return c
}

// between returns how to ask a client between its calls, nil if it cannot be asked.
func (p *sessionScope) between(client *call.Client) *call.Call {
	c := p.outside.Client(p.currentOrigin(), client)
	if c == nil || p.only == nil || p.only.mayAsk() {
		return c
	}
	d := *c
	d.Back = heldBackChannel{c.Back, c.Client, p.only}
	return &d
}

// rootsOf returns how to ask a client for its roots. The ask does not depend on a call
// and must not end with one, so a running call c carries it only if the client cannot
// be reached otherwise. c may be nil.
func (p *sessionScope) rootsOf(client *call.Client, c *call.Call) *call.Call {
	between := p.between(client)
	if between == nil || c == nil || c.Client.Key != client.Key {
		return between
	}
	d := *between
	d.Back = &fallbackBackChannel{BackChannel: between.Back, fallback: c.Back}
	return &d
}

// fallbackBackChannel asks over another back channel if the client cannot be reached.
type fallbackBackChannel struct {
	call.BackChannel
	fallback call.BackChannel
}

// Ask implements [call.BackChannel].
func (d *fallbackBackChannel) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	answer, err := d.BackChannel.Ask(ctx, method, params)
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeInternal {
		return d.fallback.Ask(ctx, method, params)
	}
	return answer, err
}

// onlyCaller returns the youngest running call, calls that still wait for the session
// included, if all come from one client. The caller holds mu.
func (p *sessionScope) onlyCaller() *call.Call {
	var found *call.Call
	for _, c := range p.calls {
		if found != nil && found.Client.Key != c.Client.Key {
			return nil
		}
		found = c
	}
	return found
}

// probeCatalogSession has the catalog session check its connection too: calls that use
// other sessions do not show whether it works, and it determines the state of the
// upstream.
func (p *sessionScope) probeCatalogSession(why protocol.Suspicion) {
	if p != nil && p.catalogSession != nil {
		p.catalogSession.Probe(why)
	}
}

// passes reports whether a notification is for the clients of the session. In a session
// for a set of capabilities, changes of lists are for all clients, and for the catalog.
func (p *sessionScope) passes(method string) bool {
	if p.catalogSession == nil || p.origin.Client != nil || p.origin.Principal != "" {
		return true
	}
	return wire.MethodOf(method).Kind != wire.KindListChanged
}

// principal returns the principal of requests that belong to no call, nil for the
// gateway itself.
func (p *sessionScope) principal() *call.Principal {
	if p == nil {
		return nil
	}
	return p.latest.Load()
}

// renewPrincipal takes the present credentials of the principal, and reports whether
// they expire later than the known ones: a session outlives the credentials with which
// it was opened.
func (p *sessionScope) renewPrincipal(who *call.Principal) bool {
	for p.origin.Principal != "" {
		known := p.latest.Load()
		if !who.Expires.After(known.Expires) {
			break
		}
		if p.latest.CompareAndSwap(known, who) {
			return true
		}
	}
	return false
}

func (p *sessionScope) relaysRoots() bool { return p != nil && p.declared.Load().roots }

// setRootsClient makes the roots of a client count for its principal.
func (p *sessionScope) setRootsClient(c *call.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rootsClient = c
}

// forgetClient notes that a client has ended.
func (p *sessionScope) forgetClient(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rootsClient != nil && p.rootsClient.Key == key {
		p.rootsClient = nil
	}
}

// answered records that the server got the answer to a request that it had sent.
func (p *sessionScope) answered(method string) {
	if p == nil || method != wire.MethodRootsList {
		return
	}
	p.mu.Lock()
	p.rootsAsked = true
	p.mu.Unlock()
	protocol.Poke(p.rootsAnswered)
}

// awaitSettled waits until a conversation that runs has settled, at most settleTimeout.
func (p *sessionScope) awaitSettled(ctx context.Context, conn protocol.Conn) {
	if p == nil {
		return
	}
	select {
	case <-p.rootsAnswered: // in a former conversation
	default:
	}
	if p.only != nil && p.only.known() != nil {
		select {
		case <-p.only.askable: // its answers can come only then
		case <-ctx.Done():
			return
		}
	}
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	traits := conn.Traits()
	if traits.Stream != nil {
		select {
		case <-traits.Stream.Known():
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
	if !p.relaysRoots() || !traits.Asks {
		return
	}
	select {
	case <-p.rootsAnswered:
		_ = protocol.Sleep(ctx, rootsGrace)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// reachable reports whether the client of a call has a session, so that it can be asked
// outside its calls.
func reachable(c *call.Call) bool {
	return c.Client.Era() == wire.EraLegacy && !c.Client.Sessionless
}
