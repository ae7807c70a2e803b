package frontend

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Handler answers the calls of clients. It is called concurrently.
//
// The method server/discover asks for the data of the results of initialize and server/discover:
// {"capabilities": {…}, "instructions": "…"}, where instructions are optional. Its params have
// the _meta of the client's request. Every other method comes from a client, and may be unknown.
//
// The call's Params are slices of a buffer that is reused after Handle has returned.
// Its Client and Principal may be kept. The error is a *wire.Error, or that of ctx.
// The context ends when the client cancels, when its session ends, when a modern client
// disconnects, and when the server stops.
type Handler interface {
	Handle(ctx context.Context, c *call.Call) (call.Result, error)
}

// Denial is an error of Options.Authenticate that determines the answer to the
// request.
type Denial interface {
	error
	Status() int       // HTTP status
	Challenge() string // value of WWW-Authenticate, "" for none
	Public() string    // text for the client
	// Log returns the level, the category and the fields of the line in the log. Lines of each
	// category have a rate limit of their own.
	Log() (level zapcore.Level, category string, fields zap.Field)
}

// NoEndpoint is an error of Options.Authenticate: the request was sent to a path that is not
// served, or not to its sender.
type NoEndpoint struct {
	Principal string           // the subject of the sender, "" if unknown
	Reason    string           // for the log
	Answer    http.HandlerFunc // answers as for any other path that is not served
}

// Error returns the reason.
func (e *NoEndpoint) Error() string { return e.Reason }

// Options configure a [Server]. Zero values mean the given defaults. Functions must not block,
// except Authenticate.
type Options struct {
	Handler Handler  // required
	Info    wire.Raw // required: the gateway's serverInfo, an object

	Limits Limits
	Settings
	// LoopbackListener says that the listener is on loopback: then Host must name this
	// machine, and origins on loopback are trusted.
	LoopbackListener bool

	// Authenticate returns the sender of a request; nil means that each sender is
	// call.Anonymous. An error that is neither a Denial nor a NoEndpoint is answered with
	// 401.
	Authenticate func(*http.Request) (*call.Principal, error)
	// ScopeChallenge returns the WWW-Authenticate for a call that lacks scopes; nil
	// means a challenge that only names the scopes.
	ScopeChallenge func(r *http.Request, scopes []string) string
	// HeaderParams returns the parameters that calls mirror into headers, of the tool that the
	// principal knows under a public name, or nil if there is no such tool. It may be nil.
	HeaderParams func(p *call.Principal, c *call.Client, publicName string) []wire.HeaderParam
	// Subscriptions deliver updates of resources; nil means that there are none.
	Subscriptions Subscriptions
	// Tasks deliver changes of tasks; nil means that there are none.
	Tasks Tasks
	// Tracer makes spans of requests that resume parked calls. If it is nil, calls do not get the
	// trace context of headers.
	Tracer   call.Tracer
	Sessions Sessions
	Parking  Parking
	Events   Events

	Logger  *zap.Logger // nil means that nothing is logged
	Metrics *Metrics    // nil means collectors that are not registered
}

// Limits bound what clients can use.
type Limits struct {
	JSON        wire.Limits   // the structure of messages
	MaxMessage  int           // bytes of one request body; 16 MiB
	MaxBodies   int64         // bytes of all bodies at the same time, except small ones; 8 × MaxMessage
	MaxCalls    int           // running requests of all clients; 4096
	MaxSessions int           // legacy sessions, and as many listen streams; 10000
	SessionIdle time.Duration // until a session without calls and streams is forgotten; 30 min
	// MaxParked is how many parked calls one client may have, 64: a principal, or if
	// the principal is anonymous, an address, or a program on this machine. All clients
	// together may have 16 times as many, shared fairly.
	MaxParked int
}

// Sessions configure the sessions of legacy clients over streamable HTTP.
type Sessions struct {
	// Keys seal the ids of sessions, so that every server with one of the keys serves them: the
	// first key seals, all open. Without keys a session ends with its server.
	Keys [][]byte
	// EventLog makes the event log of a session with this id; nil means that logs are kept in
	// memory.
	EventLog func(session string) stream.EventLog
	// Shared keeps the shared state of sessions with sealed ids; nil means that each server knows
	// only the changes that it received itself. See [Server.SessionChanged].
	Shared session.Shared
	// Replicas are the other servers with the same keys; nil if they cannot be reached. See
	// [Server.Notes] and [Server.Requests].
	Replicas Replicas
	// Copies keep the events of streams for other replicas; nil means that a stream ends with its
	// replica.
	Copies EventCopies
}

// Parking configures parked calls, see package park.
type Parking struct {
	// Permit says whether a call may be made now: nil, the error for the client, or that of ctx.
	// It is called for the retry of a parked call, which the handler does not see. It may be nil.
	Permit func(ctx context.Context, c *call.Call) error
	// Pass forwards a retry to the replica with its parked call, which continues it with
	// [Server.ResumePassed]. If it is nil, such retries are refused.
	Pass func(ctx context.Context, replica string, c *call.Call) (call.Result, error)
	// Sealer seals the states; nil means a sealer with a new key. Replica is the name of this
	// process among those that share the keys.
	Sealer  *bridge.Sealer
	Replica string
}

// Events are functions that the server calls when something happens. They must not
// call the server. Each may be nil.
type Events struct {
	// LogLevel is called with the most verbose level that any legacy session has set, whenever
	// it changes: LevelNone if none has set one. Calls of it do not overlap.
	LogLevel func(wire.Level)
	// SessionEnded is called with the Key of a legacy client whose session has ended.
	SessionEnded func(client string)
	// SessionReady is called when a legacy client may be asked: it has said that it is
	// initialized, or has sent a request. It must not block.
	SessionReady func(c *call.Client)
	// RootsChanged is called when the roots of a legacy client have changed, with the key
	// of its principal.
	RootsChanged func(c *call.Client, principal string)
}

// Settings are the options that can be changed while the server runs, see
// [Server.Set].
type Settings struct {
	AllowedOrigins []string // origins of browsers that get CORS, beside our own: scheme://host[:port]
	AllowedHosts   []string // values of Host beside loopback and the public one: host or host:port
	ProfileHosts   []string // further values of Host, with which Host is checked no more than without
	CheckHost      bool     // check Host off loopback even without AllowedHosts
	PublicURL      string   // the URL that clients use, "" if they use the listener's address
	// CompressLists compresses pages of lists for clients that accept gzip, and
	// CompressResults all large results.
	CompressLists, CompressResults bool
	// Eras are the only eras of the profiles that do not serve both.
	Eras map[string]wire.Era
	// ParkTTL is how long a client may take to come back to a parked call, 5 min.
	ParkTTL time.Duration
}

func (o *Options) setDefaults() {
	o.Limits.setDefaults()
	if o.Authenticate == nil {
		o.Authenticate = func(*http.Request) (*call.Principal, error) { return call.Anonymous, nil }
	}
	if o.ScopeChallenge == nil {
		o.ScopeChallenge = func(_ *http.Request, scopes []string) string {
			return `Bearer error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`
		}
	}
	if o.HeaderParams == nil {
		o.HeaderParams = func(*call.Principal, *call.Client, string) []wire.HeaderParam { return nil }
	}
	if o.Parking.Permit == nil {
		o.Parking.Permit = func(context.Context, *call.Call) error { return nil }
	}
	if o.Parking.Sealer == nil {
		o.Parking.Sealer = bridge.NewSealer()
	}
	if o.Events.SessionEnded == nil {
		o.Events.SessionEnded = func(string) {}
	}
	if o.Events.SessionReady == nil {
		o.Events.SessionReady = func(*call.Client) {}
	}
	if o.Events.RootsChanged == nil {
		o.Events.RootsChanged = func(*call.Client, string) {}
	}
	if o.Events.LogLevel == nil {
		o.Events.LogLevel = func(wire.Level) {}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}
