package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/transport/inproc"
	"mcpgateway/internal/wire"
)

// Options configure all sessions with one upstream. A zero value means the default in its
// comment.
type Options struct {
	Name string // the upstream's name in errors, logs and metrics
	Server
	connector.Limits
	connector.Start
	Health *connector.Health // of all sessions; nil: no call is refused, and no idle server probed
	Scoping
	Hooks

	// Mask removes secrets from text of the server before it is logged or becomes part
	// of a reason. It must not block; nil: there are no secrets. Results of calls are not
	// masked.
	Mask         func(text string) string
	LoopDetector *LoopDetector // none: nobody is told of this gateway
	Info         protocol.Info
	Logger       *zap.Logger        // none: nothing is logged
	Metrics      *connector.Metrics // none: nothing is counted

	scope    *sessionScope // who shares the session; nil: all clients
	refusals *rate.Limiter // limits log lines about refused requests of the server
	instance string        // distinguishes connectors with one name
	// printed takes the first text that the server prints and that is not MCP, and nil
	// with its first message.
	printed func(text []byte)
	// wrote takes what the standard error of the server says.
	wrote    func(line string, isError bool)
	throttle *protocol.Throttle // of the session
	urls     *urlPool           // of all sessions; nil if the server has only one URL
}

// Server says how the server is reached, and what it is expected to say. Exactly one of
// Stdio, Pipe, HTTP and Unusable is set.
type Server struct {
	Stdio *process.Config // a child process
	Pipe  inproc.StartFunc
	// Unusable says for operators why no connection can be made until the configuration changes.
	Unusable error
	HTTP     *httpconn.Config
	// URLs are the URLs of the server over HTTP if it has several; then HTTP has the first.
	URLs []URL
	// Transport is one of those over HTTP if HTTP is set: transport.Auto.
	Transport transport.Kind

	Era    wire.Era  // EraUnknown: detect it
	Memory EraMemory // remembers the detected era; nil: for the life of the connector
	EraKey string    // the key in Memory; changes with the configuration

	MaxMessage int         // bytes of one message of the server: 16 MiB
	Parse      wire.Limits // bounds of its JSON
	// Roots is the answer to roots/list in shared sessions; none: roots are not declared
	// there.
	Roots []protocol.Root
}

// Scoping says which clients share a session, and how long a session is kept.
type Scoping struct {
	Sharing     Sharing
	MaxSessions int           // sessions of clients or principals: 100
	SessionIdle time.Duration // how long an unused session is kept: 30m
	// OnlyClient is the only client of the gateway; nil: there may be any number of
	// clients.
	OnlyClient *OnlyClient
	// Personal says that the lists of the server may depend on the principal, so that
	// authenticated principals get their own lists, see [Sessions.Gather].
	Personal bool
	// Serialize runs one call at a time in each session, so that a request of the server
	// outside the streams of calls can belong to only one call.
	Serialize bool
}

// Hooks are called when something happens at the upstream. Each may be nil.
type Hooks struct {
	Observer Observer
	Outside  Outside // finds clients outside of their calls
	// AskRefused is called with the method of each request of the server that is refused
	// because its client is unknown. It must not block.
	AskRefused func(method string)
	// Gathered is called with the key of a principal whose lists have changed, see
	// [Sessions.Own]. It must not block or call Sessions.
	Gathered func(principal string)
}

// origin is the session of a connector with these options.
func (o *Options) origin() Origin {
	if o.scope == nil {
		return Origin{Upstream: o.Name}
	}
	return o.scope.currentOrigin()
}

// instances counts the connectors that were ever made.
var instances atomic.Uint64

// Observer receives events of an upstream. The goroutines of the connector call its
// methods, one call at a time and in order for each method. They must not block.
type Observer interface {
	// Changed is called with each new Snapshot.
	Changed(connector.Snapshot)
	// Notified is called with each notification of the server that belongs to no call.
	// Changes of lists come only from sessions of clients or principals; for the others
	// see Snapshot.Changes. Names and URIs in params are native.
	Notified(from Origin, method string, params wire.Raw)
}

// Origin is the session and upstream of a message.
type Origin struct {
	Upstream string
	Session  string // its name, see [Sessions.Session]
	// Client is the client of the session, Principal the key of its principal. Both are
	// zero if others share the session. Who is the principal when the session was
	// opened.
	Client    *call.Client
	Principal string
	Who       *call.Principal
}

// Outside finds the clients of messages that a server sends outside of calls. Its methods
// may be called by any goroutine, and must not block. The returned Call replaces a real
// one: its back channel reaches the client at any time.
type Outside interface {
	// Client is for messages that are for this client.
	Client(from Origin, c *call.Client) *call.Call
	// Task is for messages that name a task. The params have the progress token of the
	// call that began the task. It returns nil if no client waits for the task or holds
	// it.
	Task(from Origin, id string) *call.Call
}

// EraMemory keeps the eras of servers over restarts of the gateway. Several connectors
// may call its methods at any time.
type EraMemory interface {
	Era(key string) wire.Era
	Remember(key string, era wire.Era)
}

// withDefaults returns a copy in which every default is filled in.
func (o Options) withDefaults() *Options {
	o.Timeout = cmp.Or(o.Timeout, 60*time.Second)
	o.StartupWait = cmp.Or(o.StartupWait, 10*time.Second)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 64)
	o.MaxSessions = cmp.Or(o.MaxSessions, 100)
	o.SessionIdle = cmp.Or(o.SessionIdle, 30*time.Minute)
	o.MaxMessage = cmp.Or(o.MaxMessage, 16<<20)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	o.Logger = o.Logger.With(zap.String("upstream", o.Name))
	if o.Memory == nil || o.EraKey == "" {
		o.Memory = &shortMemory{}
	}
	if o.Mask == nil {
		o.Mask = func(text string) string { return text }
	}
	if o.printed == nil {
		o.printed, o.wrote = func([]byte) {}, func(string, bool) {}
	}
	o.refusals = protocol.NewRefusals()
	if len(o.URLs) > 1 {
		o.urls = newURLPool(o.URLs)
	}
	if o.Metrics == nil {
		o.Metrics = connector.NewMetrics()
	}
	if o.instance == "" {
		o.instance = fmt.Sprintf("%s#%d", o.Name, instances.Add(1))
	}
	return &o
}

// newConnector returns the connector of the session that o.scope describes. o has its
// defaults, and belongs to the connector from now on. beside is the connector of another
// session with the upstream, nil for the first one.
func (o *Options) newConnector(beside *connector.Connector) *connector.Connector {
	o.refusals = protocol.NewRefusals()
	options := connector.Options{
		Name: o.Name, Role: o.scope.role(), Peer: o.peer(), Session: sessionOwner{o}, OnePrincipal: o.scope.isOfOnePrincipal(), Beside: beside, Serialize: o.Serialize,
		Dialer: func(c *connector.Connector) (protocol.Dialer, error) { return o.dialer(c) },
		Limits: o.Limits, Health: o.Health, Start: connector.Start{Lifetime: o.Lifetime},
		Mask: o.Mask, Advice: o.advice, Loops: loops{o.LoopDetector, o.instance},
		Logger: o.Logger, Metrics: o.Metrics,
	}
	if beside == nil {
		options.Start = o.Start
	}
	c := connector.New(options)
	o.printed, o.wrote = c.Printed, c.Wrote // before Run: sessions that are opened later copy the options
	o.throttle = protocol.NewThrottle(c.Exceeded)
	return c
}

// peer says how the server is reached. One of several URLs is chosen for each session, so none is
// named.
func (o *Options) peer() *call.Peer {
	switch {
	case o.HTTP == nil && o.Stdio == nil:
		return nil
	case o.HTTP == nil:
		return &call.Peer{}
	case o.HTTP.URL == nil || len(o.URLs) > 1:
		return &call.Peer{OverHTTP: true}
	}
	at := o.HTTP.URL
	port, _ := strconv.Atoi(at.Port()) // the URL was checked; 0 for the port of the scheme
	switch {
	case port == 0 && at.Scheme == "https":
		port = 443
	case port == 0:
		port = 80
	}
	return &call.Peer{OverHTTP: true, Address: at.Hostname(), Port: port}
}

// dialer returns the dialer of the transport in the options.
func (o *Options) dialer(tools httpconn.ToolHeaders) (protocol.Dialer, error) {
	if o.Unusable != nil {
		return unusable{o.Unusable}, nil
	}
	s := transport.Settings{Program: o.Stdio, Start: o.Pipe, HTTP: o.HTTP, MaxConcurrent: o.MaxConcurrent, Tools: tools}
	kind := o.Transport
	if kind == "" {
		var ok bool
		if kind, ok = s.Kind(); !ok {
			return nil, errors.New("upstream: exactly one of Stdio, Pipe and HTTP must be set")
		}
	}
	if o.urls == nil {
		return transport.New(kind, o.conversation(), s)
	}
	d := &urlDialer{pool: o.urls, log: o.Logger, mask: o.Mask}
	for _, u := range o.URLs {
		at := *o.HTTP
		at.URL, s.HTTP = u.URL, &at
		dialer, err := transport.New(kind, o.conversation(), s)
		if err != nil {
			return nil, err
		}
		d.dialers = append(d.dialers, dialer)
	}
	return d, nil
}

// unusable is a dialer that always fails.
type unusable struct{ why error }

// Dial implements protocol.Dialer. Clients do not get the reason of operators.
func (u unusable) Dial(context.Context, protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	return nil, protocol.Hello{}, &protocol.CallError{Reason: "its configuration is not complete; the log of the gateway says what is missing", Cause: u.why, NotSent: true}
}

// shortMemory remembers the era of one server as long as its connector lives.
type shortMemory struct{ era atomic.Uint32 }

func (m *shortMemory) Era(string) wire.Era             { return wire.Era(m.era.Load()) }
func (m *shortMemory) Remember(_ string, era wire.Era) { m.era.Store(uint32(era)) }

// advice says in one sentence why there is no conversation, and what to do about it.
// It is for the log: it may contain addresses, paths and output of the server.
func (o *Options) advice(why error) string {
	switch {
	case o.Unusable != nil:
		return strings.ReplaceAll(o.Unusable.Error(), "\n", "; ")
	case o.Stdio != nil:
		return diagnose.Program(*o.Stdio, why)
	case o.HTTP != nil:
		at := o.HTTP.URL
		failed, several := errors.AsType[*urlError](why)
		if several {
			at, why = failed.url.URL, failed.err
		}
		if f, ok := errors.AsType[*protocol.CallError](why); ok && f.NoCredentials { // the cause says nothing about the server at url
			return fmt.Sprintf("%s: %v", diagnose.Show(at), f)
		}
		text := diagnose.Remote(diagnose.RemoteServer{Name: o.Name, URL: at, OneOfSeveral: several, HasCredentials: o.HTTP.HasCredentials(), Mask: o.Mask}, why)
		if e, ok := errors.AsType[*wire.Error](why); ok { // a gateway has its request id there
			if id := wire.ValueOf(e.Data).Get("requestId").Str(); id != "" {
				text += diagnose.RequestMark + plaintext.Line(id, diagnose.MaxExcerpt) + ")"
			}
		}
		return text
	default:
		return why.Error()
	}
}
