package connector

import (
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// state is everything that changes in the life of a connector. Only functions given to
// [Connector.update] change it, and only those given to [Connector.view] read it.
type state struct {
	conn     protocol.Conn   // nil while there is no conversation
	failures int             // attempts that have failed; not one whose conversation was lost
	refused  bool            // the last of them, by the server: see isRefusal
	ended    bool            // Run has returned
	ending   <-chan struct{} // closed when Run is to return; nil before Run
	retryAt  time.Time       // the server asks for no attempt before; zero if it does not
	snapshot Snapshot

	changedLists   kinds           // the server says that these have changed
	requestedLists kinds           // to be gathered all the same
	listRequests   []chan struct{} // closed when the requested lists were gathered

	subscriptions map[string]*resourceSubscription // by URI; they outlive conversations
	unsynced      []string                         // URIs of subscriptions that were added or removed

	logLevel logLevels
}

// signals wake the goroutines of a connector. Each channel has capacity 1.
type signals struct {
	attempt       chan struct{} // a call or an operator wants an attempt, see Retry
	reached       chan struct{} // a session with the server works
	lists         chan struct{} // there are lists to gather
	subscriptions chan struct{} // there are unsynced subscriptions
	logLevel      chan struct{} // the server may have to be told another log level

	subscriptionsLost chan struct{} // the server has forgotten all subscriptions
	logLevelLost      chan struct{} // the server has forgotten the log level
	missed            chan struct{} // notifications may have been lost
}

func newSignals() signals {
	token := func() chan struct{} { return make(chan struct{}, 1) }
	return signals{token(), token(), token(), token(), token(), token(), token(), token()}
}

// clear forgets what a former conversation left.
func (s *signals) clear() {
	for _, ch := range []chan struct{}{s.attempt, s.reached, s.lists, s.subscriptionsLost, s.logLevelLost, s.missed} {
		select {
		case <-ch:
		default:
		}
	}
}

// forgetReached forgets that a session with the server works. An attempt that begins now will show it.
func (s *signals) forgetReached() {
	select {
	case <-s.reached:
	default:
	}
}

// currentConn is the conversation that calls find without a lock.
type currentConn struct{ protocol.Conn }

// view reads the state.
func (c *Connector) view(read func(s *state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read(&c.state)
}

// update changes the state. Then it applies the rules for every change: it wakes calls
// that wait for a conversation, wakes the goroutine that has new work, and passes a new
// snapshot to the Session. The Session gets snapshots in order, and the state can be
// read meanwhile.
func (c *Connector) update(change func(s *state)) {
	c.publish.Lock()
	defer c.publish.Unlock()
	if shot := c.apply(change); shot != nil {
		c.o.Session.Changed(*shot)
	}
}

// apply changes the state, and returns the new snapshot, or nil if it is the same. The
// caller holds publish.
func (c *Connector) apply(change func(s *state)) (news *Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.state
	conn, failures, ended, lists, unsynced, level := s.conn, s.failures, s.ended, s.listsDue(), len(s.unsynced), s.logLevel.session
	change(s)
	if published := c.published.Load(); s.snapshot.Same(published) {
		advice := s.snapshot.Advice
		if s.snapshot = *published; advice != published.Advice {
			s.snapshot.Advice = advice // it has the request id of the last attempt, which is no news
			shot := s.snapshot
			c.published.Store(&shot)
		}
	} else {
		shot := s.snapshot
		news = &shot
		c.published.Store(news)
	}
	if s.conn != conn {
		c.present.Store(nil)
		if s.conn != nil {
			c.present.Store(&currentConn{s.conn})
		}
	}
	if news != nil || s.conn != conn || s.failures != failures || s.ended != ended {
		close(c.changed)
		c.changed = make(chan struct{})
	}
	if s.listsDue() && !lists {
		protocol.Poke(c.signals.lists)
	}
	if len(s.unsynced) > unsynced {
		protocol.Poke(c.signals.subscriptions)
	}
	if s.logLevel.session != level {
		protocol.Poke(c.signals.logLevel)
	}
	return news
}

func (s *state) listsDue() bool {
	return s.changedLists|s.requestedLists != 0 || len(s.listRequests) > 0
}

// takeLists returns the kinds of lists to gather, and forgets them. The caller calls
// done when it has gathered them.
func (c *Connector) takeLists() (changed, requested kinds, done func()) {
	var requests []chan struct{}
	c.update(func(s *state) {
		changed, requested, requests = s.changedLists, s.requestedLists, s.listRequests
		s.changedLists, s.requestedLists, s.listRequests = 0, 0, nil
	})
	return changed, requested, func() {
		for _, r := range requests {
			close(r)
		}
	}
}

// requestLists has lists gathered. The channel is closed when they were, or when
// gathering them failed.
func (c *Connector) requestLists(k kinds) <-chan struct{} {
	done := make(chan struct{})
	c.update(func(s *state) {
		s.requestedLists |= k
		s.listRequests = append(s.listRequests, done)
	})
	return done
}

// current returns the present conversation, nil if there is none.
func (c *Connector) current() protocol.Conn {
	if cur := c.present.Load(); cur != nil {
		return cur.Conn
	}
	return nil
}

// notificationSink takes the notifications of a connector's server that belong to no
// call. Changes of lists become work for the connector, all other notifications go to the Session.
type notificationSink struct{ c *Connector }

// Notified implements [protocol.NotificationSink].
func (n notificationSink) Notified(method string, params wire.Raw) {
	m := wire.MethodOf(method)
	if m.Kind != wire.KindListChanged || !n.c.gathersLists() {
		n.c.notes.notified(method, params)
		return
	}
	n.c.update(func(s *state) { s.changedLists |= kindsUnder(m.Capability) })
}

// Notified takes a notification that another session with the same server has got.
func (c *Connector) Notified(method string, params wire.Raw) {
	notificationSink{c}.Notified(method, params)
}

// Renewed implements [protocol.NotificationSink].
func (n notificationSink) Renewed() {
	n.c.o.Session.Suspect(protocol.ConnectionFailed)
	protocol.Poke(n.c.signals.subscriptionsLost)
	protocol.Poke(n.c.signals.logLevelLost)
}

// Missed implements [protocol.NotificationSink].
func (n notificationSink) Missed() { protocol.Poke(n.c.signals.missed) }
