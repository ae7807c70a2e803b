package upstream

import (
	"context"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Catalogs of principals: if a server may list something else for each principal, the
// session of a principal gathers the lists for that principal, as the catalog session
// does for all clients.

// Gather opens the session that gathers the lists of c's principal if need be, and
// waits for the end of its first attempt, at most Options.StartupWait. It returns false
// if there is no such session: the lists are the same for all, the principal is not
// authenticated, or there are as many sessions as there may be. The principal then uses
// the lists of the catalog session.
func (s *Sessions) Gather(ctx context.Context, c *call.Call) bool {
	if !s.personal(c) || !s.awaitRun(ctx) {
		return false
	}
	if !s.authenticates(c) {
		// Whether principals have sessions depends on the server.
		untimed := *c // the caller measures how long it gathers
		untimed.Trace = nil
		if _, _, err := s.awaitChannel(ctx, &untimed); err != nil {
			return false
		}
	}
	if !s.gathers(c) {
		return false
	}
	name := nameOf(ofPrincipal, c.Principal.Key())
	if b, err := s.findSession(ofPrincipal, name, c); err != nil || b == nil {
		return false
	}
	b := s.retain(name, 0)
	if b == nil {
		return false
	}
	defer s.release(b, 0)
	b.AwaitSettled(ctx)
	return true
}

// Reconnect has an attempt to connect made for a call of an item that no list has, in the session that
// gathers the lists of c's principal, see [connector.Connector.Reconnect].
func (s *Sessions) Reconnect(ctx context.Context, c *call.Call) error {
	if s.gathers(c) {
		if b := s.retain(nameOf(ofPrincipal, c.Principal.Key()), 1); b != nil {
			defer s.release(b, 1)
			return b.Reconnect(ctx, c)
		}
	}
	return s.catalogSession.Reconnect(ctx, c)
}

// awaitRun waits for Run, at most StartupWait, and reports whether Run was called: the
// first requests may come before.
func (s *Sessions) awaitRun(ctx context.Context) bool {
	select {
	case <-s.running:
		return true
	default:
	}
	timer := time.NewTimer(s.o.StartupWait)
	defer timer.Stop()
	select {
	case <-s.running:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Own returns the snapshot of the session that gathers the lists of a principal, and
// the principal as last seen. It returns false if there is no such session.
func (s *Sessions) Own(principal string) (connector.Snapshot, *call.Principal, bool) {
	s.mu.Lock()
	b := s.open[nameOf(ofPrincipal, principal)]
	s.mu.Unlock()
	if b == nil || !b.scope.gathers {
		return connector.Snapshot{}, nil, false
	}
	return b.Snapshot(), b.scope.principal(), true
}

// Proved reports whether a principal is authenticated. All others run the gateway
// themselves, or cannot be distinguished.
func Proved(who *call.Principal) bool {
	return !who.IsAnonymous() && !who.IsLocal()
}

// personal reports whether the lists of the server may depend on c's principal.
func (s *Sessions) personal(c *call.Call) bool {
	return s.o.Personal && s.o.Sharing != Shared && Proved(c.Principal)
}

// authenticates reports whether each request carries credentials of c's principal.
func (s *Sessions) authenticates(c *call.Call) bool {
	return s.personal(c) && s.o.HTTP != nil && s.o.HTTP.Credentials != nil
}

// gathers reports whether the session of c's principal gathers lists. It does not if
// the server cannot tell whose request it answers.
func (s *Sessions) gathers(c *call.Call) bool {
	if !s.personal(c) || s.authenticates(c) {
		return s.personal(c)
	}
	switch s.sessionKind() {
	case protocol.SessionProcess, protocol.SessionStream, protocol.SessionHTTP:
		return true
	}
	return false
}

// stateless reports whether c needs no session with the server, so that the catalog
// session can carry it.
func (s *Sessions) stateless(c *call.Call) bool {
	way := s.sessionKind()
	return way == protocol.SessionNone || way == protocol.SessionDual && c.Client.Era() != wire.EraLegacy
}

// Stateless reports whether the server needs no session for a call, so that it can be sent by any of
// several gateways.
func (s *Sessions) Stateless(c *call.Call) bool { return s.stateless(c) }

// sessionKind says what one more session with the server is, as far as that is known
// without a connection: a lazy upstream may have none.
func (s *Sessions) sessionKind() protocol.SessionKind {
	way := s.catalogSession.SessionKind()
	if way == protocol.SessionUnknown && s.o.HTTP == nil && s.catalogSession.Lifetime().Lazy {
		return protocol.SessionProcess
	}
	return way
}

// awaitChannel returns the channel to the server, and a connector that uses it: the
// catalog session, or if that has no connection, the session of c's principal, which
// the server may accept. The error is one of [connector.Connector.Do].
func (s *Sessions) awaitChannel(ctx context.Context, c *call.Call) (*connector.Connector, protocol.SessionKind, error) {
	from, way := s.catalogSession, s.sessionKind()
	if way != protocol.SessionUnknown || s.o.Sharing == Shared && !s.catalogSession.Lifetime().Lazy {
		return from, way, nil
	}
	if s.authenticates(c) {
		b, err := s.findSession(ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), c)
		if err != nil {
			return nil, 0, err
		}
		if b != nil { // else the catalog session has just connected and needs no session
			from = b.Connector
		}
	}
	if _, err := from.Await(ctx, c); err != nil {
		return nil, 0, s.refusal(ctx, err)
	}
	return from, from.SessionKind(), nil
}
