package frontend

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Handler answers the calls of clients. It is called by many goroutines at once.
//
// The method server/discover asks for what initialize and server/discover of
// clients are made of: {"capabilities": {…}, "instructions": "…"}, the latter
// optional; its params have the _meta of the client's request. Every other method
// is one that a client sent, known or not.
//
// The call's Params are slices of a buffer that is used again after Handle has
// returned; its Client and Principal may be kept. The error is a *wire.Error, or
// that of ctx, which ends when the client cancels, when its session ends, when a
// modern client disconnects, and when the server's Run ends.
type Handler interface {
	Handle(ctx context.Context, c *call.Call) (call.Result, error)
}

// Denial is an error of Options.Authenticate that says how the request is answered.
type Denial interface {
	error
	Status() int       // of HTTP
	Challenge() string // the value of WWW-Authenticate, "" for none
	Public() string    // what the client and the log are told
}

// Options configure a [Server]. Zero values stand for the defaults given.
type Options struct {
	Handler Handler  // required
	Info    wire.Raw // required: the gateway's serverInfo, an object

	Limits      wire.Limits
	MaxMessage  int           // bytes of one request body; 16 MiB
	MaxBodies   int64         // bytes of all bodies held at once, small ones left out; 8 × MaxMessage
	MaxCalls    int           // requests that run at once, of all clients; 4096
	MaxSessions int           // legacy sessions, and as many listen streams; 10000
	SessionIdle time.Duration // until a session without calls and streams expires; 30 min

	Settings
	// LoopbackListener says that we listen on loopback only: then Host must be a
	// name of ours, and origins on loopback are trusted.
	LoopbackListener bool

	// Authenticate finds out who sent a request; nil means that everybody is
	// call.Anonymous. After an error the client gets 401, unless it is a Denial.
	Authenticate func(*http.Request) (*call.Principal, error)
	// ScopeChallenge returns the WWW-Authenticate for a call that lacks scopes; nil
	// means one that names the scopes alone.
	ScopeChallenge func(r *http.Request, scopes []string) string
	// ToolSchema returns the inputSchema of the tool that the principal knows
	// under a public name, nil when there is none. It may be nil itself.
	ToolSchema func(p *call.Principal, c *call.Client, publicName string) wire.Raw
	// Subscriptions bring updates of resources; nil means that there are none.
	Subscriptions Subscriptions
	// Tasks tell of changes of tasks; nil means that there are none.
	Tasks Tasks
	// EventLog makes the log of a new session, by the session's id. nil means
	// that logs are kept in memory.
	EventLog func(session string) stream.EventLog
	// Permit says whether a call may be made now: nil, or the error for who made
	// it. It is asked when the retry of a parked call comes, which the handler
	// does not see. It must not block, and may be nil itself.
	Permit func(c *call.Call) *wire.Error
	// Sealer seals the states of parked calls; nil means one with a key of its
	// own. Replica is the name of this process among those that share the keys.
	Sealer  *bridge.Sealer
	Replica string
	// MaxParked is how many parked calls one client may have, 64: a principal, or for
	// anonymous callers an address, or a program on this machine. All clients together
	// have 16 times as many, shared fairly.
	MaxParked int
	// LogLevel is told the most verbose level that any legacy session has set
	// whenever that changes, LevelNone when none has set one. Calls of it do not
	// overlap and must not block. It may be nil.
	LogLevel func(wire.Level)

	// SessionEnded is told the Key of a legacy client whose session has ended, and
	// RootsChanged of one that says that its roots have changed, with the key of its
	// principal. They must not block, nor call the server, and may be nil.
	SessionEnded func(client string)
	RootsChanged func(c *call.Client, principal string)

	Logger  *zap.Logger // nothing is logged
	Metrics *Metrics    // collectors of its own, registered nowhere
}

// Settings are the options that can be changed while the server runs, see
// [Server.Set].
type Settings struct {
	AllowedOrigins []string // origins of browsers beside our own, scheme://host[:port]; they get CORS
	AllowedHosts   []string // values of Host beside loopback and the public one, host or host:port
	CheckHost      bool     // off loopback, too, where no hosts are named
	PublicURL      string   // how clients reach us, "" when they use what we listen on
	// ParkTTL is how long a client may take to come back to a parked call, 5 min.
	ParkTTL time.Duration
}

const (
	defaultMaxMessage  = 16 << 20
	defaultMaxSessions = 10000
	defaultMaxBodies   = 8 // times MaxMessage
	defaultMaxCalls    = 4096
	defaultMaxUnread   = 8  // times MaxMessage
	defaultLogSpace    = 16 // times MaxMessage, for the event logs of all sessions
	defaultSessionIdle = 30 * time.Minute
	defaultParkTTL     = 5 * time.Minute
	defaultMaxParked   = 64
	parkedShares       = 16 // times MaxParked, for the parked calls of all clients

	// bodyGrace is how long a client may take to send a small body, and bodyRate
	// how many bytes of a large one must come in each second after that.
	bodyGrace = 20 * time.Second
	bodyRate  = 32 << 10
	// freeBody is up to which size bodies and answers are not counted, believeFrom from which
	// size on the announced length of one is believed.
	freeBody    = 16 << 10
	believeFrom = 256 << 10
	// writeTimeout is how long a client may take to read a piece of what is
	// written to it, writeHurried how long one that has not read its share.
	writeTimeout = 30 * time.Second
	writeHurried = 5 * time.Second
	writePiece   = 256 << 10
	// pollAfter is how long the connection of a GET may last if the client knows that
	// it has to come again. Proxies end long connections less politely.
	pollAfter = 5 * time.Minute
	// maxGetStreams bounds the GET streams of one session.
	maxGetStreams = 16
	// maxBatch bounds the messages of one batch, whose requests run at once.
	maxBatch = 100
	// retryAfter, in seconds, is what clients are told when a bound is reached.
	retryAfter = "5"
)

func (o *Options) setDefaults() {
	if o.MaxMessage <= 0 {
		o.MaxMessage = defaultMaxMessage
	}
	if o.MaxBodies <= 0 {
		o.MaxBodies = defaultMaxBodies * int64(o.MaxMessage)
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = defaultMaxCalls
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = defaultMaxSessions
	}
	if o.SessionIdle <= 0 {
		o.SessionIdle = defaultSessionIdle
	}
	if o.Authenticate == nil {
		o.Authenticate = func(*http.Request) (*call.Principal, error) { return call.Anonymous, nil }
	}
	if o.ScopeChallenge == nil {
		o.ScopeChallenge = func(_ *http.Request, scopes []string) string {
			return `Bearer error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`
		}
	}
	if o.ToolSchema == nil {
		o.ToolSchema = func(*call.Principal, *call.Client, string) wire.Raw { return nil }
	}
	if o.Permit == nil {
		o.Permit = func(*call.Call) *wire.Error { return nil }
	}
	if o.Sealer == nil {
		o.Sealer = bridge.NewSealer()
	}
	if o.MaxParked <= 0 {
		o.MaxParked = defaultMaxParked
	}
	if o.SessionEnded == nil {
		o.SessionEnded = func(string) {}
	}
	if o.RootsChanged == nil {
		o.RootsChanged = func(*call.Client, string) {}
	}
	if o.LogLevel == nil {
		o.LogLevel = func(wire.Level) {}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}
