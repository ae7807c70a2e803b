package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// loudFor is how long a legacy server is kept at the level of a modern request
// after the last such request.
const loudFor = time.Minute

// loudness is which log messages are wanted of a server: the most verbose level
// of all who want any. Legacy clients set it for their session; modern ones ask
// with each request, and a legacy server has to be told for them. The methods
// may be called by many goroutines at once.
type loudness struct {
	changed chan struct{} // capacity 1

	mu     sync.Mutex
	base   wire.Level // of sessions
	raised wire.Level // of requests, until then
	until  time.Time
}

// set changes the level of sessions.
func (l *loudness) set(level wire.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.base != level {
		l.base = level
		protocol.Poke(l.changed)
	}
}

// raise wants at least the level of a request for a while.
func (l *loudness) raise(level wire.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.After(l.until) || level < l.raised {
		l.raised = level
		protocol.Poke(l.changed) // the end of it is to be waited for
	}
	l.until = now.Add(loudFor)
}

// now returns the level that is wanted, LevelNone when nobody wants any, and
// when that has to be looked at again; the zero time means not before it changes.
func (l *loudness) now() (wire.Level, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(l.until) {
		return l.base, time.Time{}
	}
	if l.base != wire.LevelNone && l.base < l.raised {
		return l.base, l.until
	}
	return l.raised, l.until
}

// volume is the log level of one conversation with a legacy server.
type volume struct {
	o    *Options
	conn protocol.Conn
	turn chan struct{} // holds a token while nobody tells the server
	told atomic.Uint32 // a wire.Level; changed by who has the turn
}

func newVolume(o *Options, c protocol.Conn) *volume {
	v := &volume{o: o, conn: c, turn: make(chan struct{}, 1)}
	v.turn <- struct{}{}
	return v
}

// tell sees to it that the server has been told the level. LevelNone leaves it
// as it is: a server cannot be told to go back to its own judgement. A server
// that refuses is not asked again for the same level.
func (v *volume) tell(ctx context.Context, level wire.Level) {
	if level == wire.LevelNone || v.has(level) {
		return
	}
	select {
	case <-v.turn:
		defer func() { v.turn <- struct{}{} }()
	case <-ctx.Done():
		return
	}
	if v.has(level) {
		return
	}
	params := wire.SetMember(wire.Raw(`{}`), "level", wire.String(level.String()))
	_, err := request(ctx, v.conn, &call.Call{Method: wire.MethodSetLevel, Params: params, Back: protocol.NoClient{}}, levelTimeout)
	if ctx.Err() != nil {
		return
	}
	v.told.Store(uint32(level))
	if err != nil {
		v.o.Logger.Warn("cannot set the server's log level", zap.Stringer("level", level), v.o.why(err))
	}
}

// has reports whether the server has been told this level last.
func (v *volume) has(level wire.Level) bool { return wire.Level(v.told.Load()) == level }

// forget notes that the server knows of no level any more.
func (v *volume) forget(ctx context.Context) {
	select {
	case <-v.turn:
		v.told.Store(uint32(wire.LevelNone))
		v.turn <- struct{}{}
	case <-ctx.Done():
	}
}

// heed has a legacy server send the log messages that a call wants, before it
// gets the call: modern requests say it themselves, and a legacy client that has
// set the level of its session relies on it from the answer on. What others then
// get too much is filtered.
func (c *Connector) heed(ctx context.Context, cl *call.Call) {
	if cl.LogLevel == wire.LevelNone || cl.Client == nil {
		return
	}
	v := c.volume.Load()
	if v == nil {
		return
	}
	if cl.Client.Era() == wire.EraModern {
		c.loudness.raise(cl.LogLevel)
	}
	level, _ := c.loudness.now()
	v.tell(ctx, level)
}
