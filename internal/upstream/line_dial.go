package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpgateway/internal/wire"
)

// probePatience is how long a server may leave server/discover unanswered
// before initialize is sent after it. An old server may ignore what it does not
// know; a new one may still be on its way, downloaded by its launcher.
const probePatience = 3 * time.Second

// errAnew means that a server that was probed has to be started anew and spoken
// to as a legacy one from its first message on: it ended under the probe, it
// refuses initialize after it, or it speaks both eras and has taken the probe
// for the choice of the modern one.
var errAnew = errors.New("the server does not take the question for its era as a first message")

// lineDialer opens conversations over lines, in the era of the server.
type lineDialer struct {
	o    *Options
	self self
	open opener
	// mute says that in the last attempt the server ended before it answered
	// anything, also when it was spoken to as a legacy one from its first message
	// on. It belongs to the goroutine that dials.
	mute bool
}

func newLineDialer(o *Options, open opener) *lineDialer {
	d := &lineDialer{o: o, self: newSelf(o), open: open}
	d.self.via = o.Trail.Sent()
	return d
}

// dial implements [dialer]. A server whose era is not known may be started twice, see
// errAnew. One that ends at its start whatever it is sent, as for a missing key, is
// started once in each attempt from the second one on, until it has said anything.
func (d *lineDialer) dial(ctx context.Context, in inbox) (conn, hello, error) {
	era, configured := d.o.Era, d.o.Era != wire.EraUnknown
	if !configured {
		era = d.o.remembered()
	}
	initialize := func(l *lineConn) (hello, error) { return l.initialize(ctx) }
	greet := func(l *lineConn) (hello, error) { return l.probe(ctx, era == wire.EraUnknown) }
	switch {
	case era == wire.EraLegacy, d.mute:
		greet = initialize
	case configured:
		greet = func(l *lineConn) (hello, error) { return l.discover(ctx) }
	}
	l, h, err := d.try(ctx, in, greet)
	if errors.Is(err, errAnew) {
		l, h, err = d.try(ctx, in, initialize)
	}
	birth, born := errors.AsType[*stillborn](err)
	was := d.mute
	d.mute = born && birth.unheard && !configured && ctx.Err() == nil
	if was && born && !d.mute && ctx.Err() == nil {
		return d.dial(ctx, in) // it says something again, but not what a legacy server does
	}
	if err != nil {
		if !configured && ctx.Err() == nil {
			d.o.remember(wire.EraUnknown)
		}
		return nil, hello{}, err
	}
	if !configured {
		d.o.remember(h.revision.Era())
	}
	return l, h, nil
}

// try opens a link and lets greet find out who is there.
func (d *lineDialer) try(ctx context.Context, in inbox, greet func(*lineConn) (hello, error)) (*lineConn, hello, error) {
	link, err := d.open(ctx)
	if err != nil {
		return nil, hello{}, err
	}
	l := newLineConn(d.o, &d.self, link, in)
	h, err := greet(l)
	if err == nil {
		l.rev = h.revision
		l.modern.Store(h.revision.Era() == wire.EraModern)
		if l.modern.Load() {
			err = l.feeds.begin(ctx, h.capabilities)
		}
	}
	if err == nil {
		return l, h, nil
	}
	how := l.shut()
	f, ok := errors.AsType[*fault](err)
	// Part of a line, or one over the limit, has not been looked at.
	babbled := l.babbled.Load() || l.doubt.heard.Load() > 0 && !l.spoke.Load()
	s := &stillborn{error: err, unheard: ok && f.lost, babbled: babbled}
	if s.unheard && how != nil {
		s.error = how // how a process ended says more than that its output did
	}
	if e, ok := errors.AsType[*ended](how); ok {
		s.said = e.said
	}
	if isEndless(l.why) {
		s.error = l.why // which would be so after any first message
	}
	return nil, hello{}, s
}

// initialize opens a legacy session.
func (l *lineConn) initialize(ctx context.Context) (hello, error) {
	m, err := l.request(ctx, l.self.initializeCall(), wire.LatestLegacy)
	if err != nil {
		return hello{}, err
	}
	return l.initialized(m)
}

// initialized takes the answer to initialize. The server must not get anything
// else before it has been told that the session is open.
func (l *lineConn) initialized(m wire.Message) (hello, error) {
	if m.Error != nil {
		return hello{}, fmt.Errorf("the server refused initialize: %w", m.Error)
	}
	h, err := readInitialize(m.Result)
	if err == nil {
		l.writer.post(&wire.Message{Method: wire.NoteInitialized})
	}
	return h, err
}

// discover asks a server that is configured as modern what it is.
func (l *lineConn) discover(ctx context.Context) (hello, error) {
	m, err := l.request(ctx, l.self.discoverCall(), wire.LatestModern)
	if err != nil {
		return hello{}, err
	}
	h, _, err := judge(m)
	if err == nil && h.revision == "" {
		err = errors.New("the server is configured as a modern one but speaks legacy revisions only")
	}
	return h, err
}

// probe finds out the era of a server: it asks what modern servers must answer,
// and falls back to initialize. A server that speaks both eras is spoken to as
// a legacy one: such servers still ask their client in the legacy way, which
// fails while they serve a modern request. If impatient it falls back, too, when there is
// no answer for a while; an answer that comes after all still counts.
func (l *lineConn) probe(ctx context.Context, impatient bool) (hello, error) {
	discover, err := l.send(ctx, l.self.discoverCall(), wire.LatestModern)
	if err != nil {
		return hello{}, probeFault(ctx)
	}
	defer l.flights.end(discover)
	var patience <-chan time.Time
	if impatient {
		patience = time.After(probePatience)
	}
	select {
	case a := <-discover.answer:
		h, err := a.judge()
		if err != errLegacy {
			return h, err
		}
		if h, err = l.initialize(ctx); err != nil && ctx.Err() == nil {
			err = errAnew
		}
		return h, err
	case <-ctx.Done():
		return hello{}, ctx.Err()
	case <-patience:
	}

	initialize, err := l.send(ctx, l.self.initializeCall(), wire.LatestLegacy)
	if err != nil {
		return hello{}, probeFault(ctx)
	}
	defer l.flights.end(initialize)
	discovered, initialized := discover.answer, initialize.answer
	for discovered != nil || initialized != nil {
		select {
		case a := <-discovered:
			h, err := a.judge()
			if err != errLegacy {
				return h, err
			}
			discovered = nil
		case a := <-initialized:
			if a.err == nil {
				if h, err := l.initialized(a.msg); err == nil {
					return h, nil
				}
			}
			initialized = nil // as a modern server does: what it says to discover decides
		case <-ctx.Done():
			return hello{}, ctx.Err()
		}
	}
	return hello{}, errAnew
}

// errLegacy is the judgement that a server is to be sent initialize.
var errLegacy = errors.New("the server is a legacy one")

// judge reads the answer to a probe: a nil error means a modern server.
func (a answer) judge() (hello, error) {
	if a.err != nil {
		return hello{}, errAnew
	}
	h, legacy, err := judge(a.msg)
	switch {
	case err != nil:
		return hello{}, err
	case legacy && a.msg.Error == nil: // it took the probe for a modern request
		return hello{}, errAnew
	case legacy:
		return hello{}, errLegacy
	}
	return h, nil
}

// probeFault is the error of a probe that could not be sent.
func probeFault(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errAnew
}
