package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// settleIn is how long a session that a call has opened is given to come to
	// rest before it gets the call: some servers learn their client's roots first
	// of all, and a call before that would be refused.
	settleIn = 500 * time.Millisecond
	// takeIn is how long a server gets to take in the roots that it was told.
	takeIn = 50 * time.Millisecond
)

// persona is whom a session stands for that is not everybody's: one client, one
// principal, or all clients that can do the same. A nil persona is everybody. The
// methods may be called by many goroutines at once.
type persona struct {
	origin Origin
	// declared is what the session declares. It changes only between two
	// conversations, and only for the only client.
	declared atomic.Pointer[declaration]
	// only is the client whose session gathers the catalog too; nil: there may be
	// others.
	only *OnlyClient
	// gathers says that the session gathers the lists of its principal.
	gathers bool
	who     atomic.Pointer[call.Principal] // the principal with the proof that is good for longest
	outside Outside                        // may be nil
	// head is the session that gathers the catalog, where both are with one server;
	// nil where each has a process of its own.
	head *Connector
	told chan struct{} // capacity 1: the server has been told the roots

	mu     sync.Mutex
	calls  []*call.Call // that are under way, the youngest last
	rooted *call.Client // of a principal's clients the one whose roots count
	asked  bool         // the server has asked for roots, in this conversation or before
	retell func()       // has the server ask for them again
}

// declaration is what a session declares to the server.
type declaration struct {
	capabilities wire.Raw
	roots        bool // the client's are relayed
}

// newOnlyPersona returns the persona of the only client's session.
func newOnlyPersona(o *Options) *persona {
	p := &persona{
		origin: Origin{Upstream: o.Name, Who: call.Local}, only: o.OnlyClient, gathers: true,
		outside: o.Outside, told: make(chan struct{}, 1),
	}
	p.declared.Store(&declaration{})
	return p
}

// declareFor waits for the only client and has the session declare what it can do:
// everything, if it is not known in time. Roots that are configured for a shared
// session go before the client's: they are what the server is confined to.
func (p *persona) declareFor(ctx context.Context, o *Options) {
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

// isHead reports whether the session says how the upstream is: that of everybody, or
// of the only client.
func (p *persona) isHead() bool { return p == nil || p.only != nil }

// client is the client whose session it is, nil for none, or more than one.
func (p *persona) client() *call.Client {
	if p.only != nil {
		return p.only.known()
	}
	return p.origin.Client
}

// from is the origin of what the server says.
func (p *persona) from() Origin {
	o := p.origin
	if c := p.client(); c != nil && c.Era() == wire.EraLegacy {
		o.Client = c // a modern client hears of nothing outside of its requests
	}
	return o
}

// enter notes a call that is under way, until the returned function is called.
func (p *persona) enter(c *call.Call) (leave func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	if p.rooted == nil && p.origin.Principal != "" && reachable(c) && c.Client.Can("roots") {
		p.rooted = c.Client
		if p.asked && p.retell != nil {
			p.retell()
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = slices.DeleteFunc(p.calls, func(d *call.Call) bool { return c == d })
	}
}

// host returns whom a question is for that came in no call's stream. inFlight is
// the call that the calls in flight suggest, nil for none.
func (p *persona) host(method string, inFlight *call.Call) *call.Call {
	p.mu.Lock()
	if method == wire.MethodRootsList {
		p.asked = true // from now on: a client with roots that comes before the answer has to be told of
	}
	c, rooted := inFlight, p.rooted
	if c == nil {
		c = p.soleCaller()
	}
	p.mu.Unlock()
	client := p.client()
	switch {
	case client == nil && p.origin.Principal == "":
		return inFlight // the clients are strangers to one another
	case p.outside == nil:
	case method == wire.MethodRootsList && client != nil:
		return p.rootsOf(client, c)
	case method == wire.MethodRootsList && rooted != nil:
		return p.rootsOf(rooted, c)
	case client != nil && c == nil:
		return p.outside.Client(p.from(), client)
	}
	return c
}

// rootsOf returns how a client is asked for its roots. That is no matter of a
// call, and not to end with one, so that a call is the way only where there is
// none between calls: c is one under way, nil for none.
func (p *persona) rootsOf(client *call.Client, c *call.Call) *call.Call {
	between := p.outside.Client(p.from(), client)
	if between == nil || c == nil || c.Client.Key != client.Key {
		return between
	}
	d := *between
	d.Back = &detour{BackChannel: between.Back, otherwise: c.Back}
	return &d
}

// detour is a back channel that asks by another where a client cannot be reached.
type detour struct {
	call.BackChannel
	otherwise call.BackChannel
}

// Ask implements [call.BackChannel].
func (d *detour) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	answer, err := d.BackChannel.Ask(ctx, method, params)
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeInternal {
		return d.otherwise.Ask(ctx, method, params)
	}
	return answer, err
}

// soleCaller returns the youngest call that is under way, also one that still
// waits for the session, if all come from one client. The caller holds mu.
func (p *persona) soleCaller() *call.Call {
	var found *call.Call
	for _, c := range p.calls {
		if found != nil && found.Client.Key != c.Client.Key {
			return nil
		}
		found = c
	}
	return found
}

// suspect has the head look whether the server is still there and knows it: calls
// that go through other sessions do not show it.
func (p *persona) suspect() {
	if p != nil && p.head != nil {
		p.head.suspect()
	}
}

// passes reports whether a notification is for those whose session it is. Where
// strangers share it, changes of lists are for all, and for the catalog.
func (p *persona) passes(method string) bool {
	if p.head == nil || p.origin.Client != nil || p.origin.Principal != "" {
		return true
	}
	return wire.MethodOf(method).Kind != wire.KindListChanged
}

// gatherer reports whether a session with this persona gathers lists.
func (p *persona) gatherer() bool { return p == nil || p.gathers }

// principal returns for whom requests are that belong to no call, nil for the
// gateway itself.
func (p *persona) principal() *call.Principal {
	if p == nil {
		return nil
	}
	return p.who.Load()
}

// renew takes the proof that a principal brings now, and reports whether it is good
// for longer than that before: a session outlives the proof that it was opened with.
func (p *persona) renew(who *call.Principal) bool {
	for p.origin.Principal != "" {
		known := p.who.Load()
		if !who.Expires.After(known.Expires) {
			break
		}
		if p.who.CompareAndSwap(known, who) {
			return true
		}
	}
	return false
}

func (p *persona) relaysRoots() bool { return p != nil && p.declared.Load().roots }

// root makes the roots of one of a principal's clients those that count.
func (p *persona) root(c *call.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rooted = c
}

// forget notes that a client has gone.
func (p *persona) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rooted != nil && p.rooted.Key == key {
		p.rooted = nil
	}
}

// answered notes that the server has got an answer to a request of its own.
func (p *persona) answered(method string) {
	if p == nil || method != wire.MethodRootsList {
		return
	}
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	protocol.Poke(p.told)
}

// settleIn returns when a conversation that runs already has come to rest, or
// when that takes too long.
func (p *persona) settleIn(ctx context.Context, conn protocol.Conn) {
	if p == nil {
		return
	}
	select {
	case <-p.told: // in a conversation before
	default:
	}
	timer := time.NewTimer(settleIn)
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
	case <-p.told:
		_ = protocol.Sleep(ctx, takeIn)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// reachable reports whether the client of a call has a session, so that it can be
// reached outside of calls.
func reachable(c *call.Call) bool {
	return c.Client.Era() == wire.EraLegacy && !c.Client.Sessionless
}
