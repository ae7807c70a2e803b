package upstream

import (
	"context"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Lists of single principals. Where what a server lists may depend on who asks, the
// session of a principal gathers what it lists for them, as the head does for
// everybody.

// Gather sees to it that there is a session which gathers the lists of c's principal,
// and waits until its first attempt has ended, well or not, for Options.StartupWait
// at most. It reports whether there is one: not where lists are the same for all,
// where nothing proves who the principal is, and where there are as many sessions as
// there may be. Then the lists of the head are theirs too.
func (s *Sessions) Gather(ctx context.Context, c *call.Call) bool {
	if !s.personal(c) || !s.starts(ctx) {
		return false
	}
	if !s.proves(c) {
		// It depends on the server whether principals have sessions with it.
		if _, _, err := s.way(ctx, c); err != nil {
			return false
		}
	}
	if !s.gathers(c) {
		return false
	}
	name := nameOf(ofPrincipal, c.Principal.Key())
	if b, err := s.find(ofPrincipal, name, c); err != nil || b == nil {
		return false
	}
	b := s.hold(name)
	if b == nil {
		return false
	}
	defer s.leave(b)
	b.gathered(ctx)
	return true
}

// starts waits until there can be sessions, for StartupWait at most, and reports
// whether there can be: the first requests may come before the upstream is run.
func (s *Sessions) starts(ctx context.Context) bool {
	select {
	case <-s.began:
		return true
	default:
	}
	timer := time.NewTimer(s.o.StartupWait)
	defer timer.Stop()
	select {
	case <-s.began:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Own returns what is known of the server by the lists of a principal, and the
// principal as last seen; false where there is no session that gathers them.
func (s *Sessions) Own(principal string) (Snapshot, *call.Principal, bool) {
	s.mu.Lock()
	b := s.open[nameOf(ofPrincipal, principal)]
	s.mu.Unlock()
	if b == nil || !b.persona.gathers {
		return Snapshot{}, nil, false
	}
	return b.Snapshot(), b.persona.principal(), true
}

// Proved reports whether something proves who a principal is. All others are
// whoever runs the gateway, or cannot be told apart.
func Proved(who *call.Principal) bool {
	return who.AuthMethod != call.Anonymous.AuthMethod && who.AuthMethod != call.Local.AuthMethod
}

// personal reports whether what the server lists may depend on c's principal.
func (s *Sessions) personal(c *call.Call) bool {
	return s.o.Personal && s.o.Sharing != Shared && Proved(c.Principal)
}

// proves reports whether each request proves to the server that it is c's
// principal's.
func (s *Sessions) proves(c *call.Call) bool {
	return s.personal(c) && s.o.HTTP != nil && s.o.HTTP.Credentials != nil
}

// gathers reports whether the session of c's principal gathers their lists: not where
// the server does not learn whose request it answers.
func (s *Sessions) gathers(c *call.Call) bool {
	if !s.personal(c) || s.proves(c) {
		return s.personal(c)
	}
	switch channel(s.head.channel.Load()) {
	case channelLine, channelSSE, channelSessions:
		return true
	}
	return false
}

// stateless reports whether c needs no session with the server, so that the head can
// take it.
func (s *Sessions) stateless(c *call.Call) bool {
	way := channel(s.head.channel.Load())
	return way == channelModern || way == channelDual && c.Client.Era() != wire.EraLegacy
}

// way returns the way to the server, and a connector that knows it: the head, or
// where that found none that of c's principal, whom the server may let in all the
// same. The error is that of [Connector.Do].
func (s *Sessions) way(ctx context.Context, c *call.Call) (*Connector, channel, error) {
	from, way := s.head, channel(s.head.channel.Load())
	if way != channelUnknown || s.o.Sharing == Shared {
		return from, way, nil
	}
	if s.proves(c) {
		b, err := s.find(ofPrincipal, nameOf(ofPrincipal, c.Principal.Key()), c)
		if err != nil {
			return nil, 0, err
		}
		if b != nil { // else the head has just found out that it can do without
			from = b.Connector
		}
	}
	if _, err := from.await(ctx, nil); err != nil {
		return nil, 0, s.refusal(ctx, err)
	}
	return from, channel(from.channel.Load()), nil
}

// gathered waits until the first attempt to gather lists has ended, for StartupWait
// at most.
func (c *Connector) gathered(ctx context.Context) {
	timer := time.NewTimer(c.o.StartupWait)
	defer timer.Stop()
	for {
		c.publish.Lock()
		settled, news := c.snap.Load().Settled, c.news
		c.publish.Unlock()
		if settled {
			return
		}
		select {
		case <-news:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
