package connector

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Options configure a connector. A zero value means the default in its comment.
type Options struct {
	Name string // the upstream's name in errors and metrics
	Role Role
	Peer *call.Peer // for spans of calls; nil: they do not say how the server is reached
	// Dialer returns the dialer of the transport. [Connector.Run] calls it once, and
	// returns its error. The dialer may ask the connector for the header parameters of
	// tools, and should tell it what the server has printed.
	Dialer func(c *Connector) (protocol.Dialer, error)
	// Session is called for the clients of the session. It may be nil.
	Session Session
	// OnePrincipal says that all calls of the session are of one principal.
	OnePrincipal bool
	// Beside is the connector of the session with the same upstream that gathers the catalog.
	// Both share one limit of calls, and the facts about tools unless this one gathers lists
	// itself. Beside connects soon if it rests after a failure while this one works,
	// and gathers lists that have failed.
	Beside *Connector

	Limits Limits
	Start  Start
	Health *Health // of all sessions with the upstream; nil: no call is refused, and no idle server probed
	// Serialize runs one call at a time, so that a request of the server outside the
	// streams of calls can belong to only one call.
	Serialize bool

	// Mask removes secrets from text of the server before it is logged or becomes part
	// of a reason. It must not block; nil: there are no secrets. Results of calls are not
	// masked.
	Mask func(text string) string
	// Advice says in one sentence why there is no connection, and what to do about it;
	// nil: the text of the error.
	Advice func(why error) string
	Loops  LoopDetector // none: loops are not detected

	Logger  *zap.Logger // none: nothing is logged. Its fields name the upstream
	Metrics *Metrics    // none: nothing is counted
}

// Limits bound the calls and attempts of a connector.
type Limits struct {
	Timeout       time.Duration // of a call without progress, and of an attempt to connect: 60s
	MaxDuration   time.Duration // of a call: 1h
	StartupWait   time.Duration // how long a call waits for a connection: 10s
	MaxConcurrent int           // calls at the same time: 64
	MaxQueue      int           // calls waiting for their turn: 256; negative: none
	RefreshMin    time.Duration // least time between refreshes without a notification: 30s
}

// Start says when a connector connects, and which data it has from an earlier run. The
// zero value connects immediately and knows nothing.
type Start struct {
	Lifetime Lifetime // see also [Connector.SetLifetime]
	// Remembered is the snapshot of the upstream from an earlier run, nil if there is
	// none. Only the fields of the last conversation count.
	Remembered  *Snapshot
	GatherSlots GatherSlots // shared with other upstreams; nil: no bound
	// NewCredentials reports whether requests have other credentials than at the last attempt. Then a connector that rests after a
	// failure, whatever it was, connects soon. It returns soon; nil: credentials do not change.
	NewCredentials func() bool
}

// Role says what a connector does in addition to calls.
type Role uint8

const (
	// GathersCatalog is the role of the connector that gathers the lists, and determines
	// the state of the upstream. Its Lifetime says when it connects.
	GathersCatalog Role = iota
	// GathersLists is the role of a connector that connects immediately and gathers lists
	// which differ from those of the catalog.
	GathersLists
	// OnlyCalls is the role of a connector that gathers no lists. It connects for the
	// first call.
	OnlyCalls
)

// Session is the interface to the clients that share a session. Its methods may be called
// concurrently. Only Declare and AwaitSettled may block.
type Session interface {
	// Declare is called before each attempt to connect: from then on the capabilities
	// that the session declares do not change. It may wait until they are known.
	Declare(ctx context.Context)
	// AwaitSettled waits until a new conversation can take calls.
	AwaitSettled(ctx context.Context, conn protocol.Conn)
	// AddCall says that a call uses the session until remove is called.
	AddCall(c *call.Call) (remove func())
	// Suspect says that the server may be gone, so that other sessions with it are
	// probed.
	Suspect(why protocol.Suspicion)
	// Changed is called with each new Snapshot, in order.
	Changed(s Snapshot)
	// Notified is called with each notification of the server that belongs to no call,
	// except for changes of the lists that the connector gathers.
	Notified(method string, params wire.Raw)
}

// LoopDetector keeps the ids of the gateways behind the upstream.
type LoopDetector interface {
	protocol.LoopDetector
	// Forget says that the upstream is not connected any more.
	Forget()
}

// withDefaults returns a copy in which every default is filled in.
func (o Options) withDefaults() *Options {
	l := &o.Limits
	l.Timeout = cmp.Or(l.Timeout, 60*time.Second)
	l.MaxDuration = cmp.Or(l.MaxDuration, time.Hour)
	l.StartupWait = cmp.Or(l.StartupWait, 10*time.Second)
	l.MaxConcurrent = cmp.Or(l.MaxConcurrent, 64)
	l.MaxQueue = max(cmp.Or(l.MaxQueue, 256), 0)
	l.RefreshMin = cmp.Or(l.RefreshMin, 30*time.Second)
	if o.Session == nil {
		o.Session = noSession{}
	}
	if o.Loops == nil {
		o.Loops = noLoops{}
	}
	if o.Mask == nil {
		o.Mask = func(text string) string { return text }
	}
	if o.Advice == nil {
		o.Advice = error.Error
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	return &o
}

// noSession is a Session that ignores all calls.
type noSession struct{}

func (noSession) Declare(context.Context)                     {}
func (noSession) AwaitSettled(context.Context, protocol.Conn) {}
func (noSession) AddCall(*call.Call) func()                   { return func() {} }
func (noSession) Suspect(protocol.Suspicion)                  {}
func (noSession) Changed(Snapshot)                            {}
func (noSession) Notified(string, wire.Raw)                   {}

// noLoops is a LoopDetector that detects nothing.
type noLoops struct{}

func (noLoops) Via() string        { return "" }
func (noLoops) Check(string) error { return nil }
func (noLoops) Forget()            {}
