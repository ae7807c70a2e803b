package connector

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// requestLevelTime is how long a legacy server keeps the log level of a modern request
// after the last such request.
const requestLevelTime = time.Minute

// logLevels are the log levels that clients want of a server. Legacy clients set one
// for their session; modern clients ask with each request, and the gateway has to tell
// a legacy server for them, as it does for a call that another replica has passed on.
type logLevels struct {
	session wire.Level // the most verbose of all sessions
	request wire.Level // the most verbose of recent requests, until then
	until   time.Time
}

// raise asks for at least the level of a request for a while. It reports whether the
// end of that while has to be awaited anew.
func (l *logLevels) raise(level wire.Level, now time.Time) (restarted bool) {
	if restarted = now.After(l.until) || level < l.request; restarted {
		l.request = level
	}
	l.until = now.Add(requestLevelTime)
	return restarted
}

// covers reports whether the level of all sessions includes this one. It may not if another replica has
// passed on a call in a session that this one does not know.
func (l *logLevels) covers(level wire.Level) bool {
	return l.session != wire.LevelNone && l.session <= level
}

// wanted returns the most verbose level, LevelNone if no client wants any, and until
// when it holds; the zero time means until it is changed.
func (l *logLevels) wanted(now time.Time) (wire.Level, time.Time) {
	switch {
	case !now.Before(l.until):
		return l.session, time.Time{}
	case l.session != wire.LevelNone && l.session < l.request:
		return l.session, l.until
	default:
		return l.request, l.until
	}
}

// SetLogLevel tells the server, now and after each reconnection, which log
// messages are wanted at least. It is for legacy servers; to modern ones each
// call says so itself. LevelNone leaves the choice to the server.
func (c *Connector) SetLogLevel(level wire.Level) {
	c.update(func(s *state) { s.logLevel.session = level })
}

// wantedLogLevel is [logLevels.wanted].
func (c *Connector) wantedLogLevel() (level wire.Level, until time.Time) {
	c.view(func(s *state) { level, until = s.logLevel.wanted(time.Now()) })
	return level, until
}

// applyLogLevel has a legacy server send the log messages that a call wants, before the
// server gets the call. Modern requests say so themselves, and a legacy client that has
// set the level of its session relies on it from the answer on. Messages that other
// clients then get too much are filtered.
func (c *Connector) applyLogLevel(ctx context.Context, cl *call.Call) {
	if cl.LogLevel == wire.LevelNone || cl.Client == nil {
		return
	}
	sync := c.logLevelSync.Load()
	if sync == nil {
		return
	}
	var level wire.Level
	restarted := false
	c.update(func(s *state) {
		now := time.Now()
		if cl.Client.Era() == wire.EraModern || !cl.LevelUnset && !s.logLevel.covers(cl.LogLevel) {
			restarted = s.logLevel.raise(cl.LogLevel, now)
		}
		level, _ = s.logLevel.wanted(now)
	})
	if restarted {
		protocol.Poke(c.signals.logLevel) // its end has to be awaited
	}
	sync.tell(ctx, level)
}

// logLevelSync keeps one conversation with a legacy server at the wanted log level.
type logLevelSync struct {
	o    *Options
	conn protocol.Conn
	turn chan struct{} // holds a token while the server is not being told
	told atomic.Uint32 // a wire.Level; changed by the holder of the turn
}

func newLogLevelSync(o *Options, c protocol.Conn) *logLevelSync {
	s := &logLevelSync{o: o, conn: c, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// tell sends the level to the server unless it was already sent. LevelNone changes nothing, because the
// protocol cannot reset the level of a server. If the server refuses a level, the same level is not
// sent again.
func (s *logLevelSync) tell(ctx context.Context, level wire.Level) {
	if level == wire.LevelNone || s.has(level) {
		return
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return
	}
	if s.has(level) {
		return
	}
	params := wire.SetMember(wire.Raw(`{}`), "level", wire.String(level.String()))
	_, err := request(ctx, s.conn, &call.Call{Method: wire.MethodSetLevel, Params: params, Back: protocol.NoClient{}}, levelTimeout)
	if ctx.Err() != nil {
		return
	}
	s.told.Store(uint32(level))
	if err != nil {
		s.o.Logger.Warn("cannot set the server's log level", zap.Stringer("level", level), s.o.why(err))
	}
}

// has reports whether this level was the last one that was sent to the server.
func (s *logLevelSync) has(level wire.Level) bool { return wire.Level(s.told.Load()) == level }

// forget notes that the server has forgotten its level.
func (s *logLevelSync) forget(ctx context.Context) {
	select {
	case <-s.turn:
		s.told.Store(uint32(wire.LevelNone))
		s.turn <- struct{}{}
	case <-ctx.Done():
	}
}
