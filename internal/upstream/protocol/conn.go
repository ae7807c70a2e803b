package protocol

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Conn is one conversation with an upstream server, in one era, over one transport.
//
// Run is called once, everything else concurrently as soon as Dial has returned,
// except for Listen, which one goroutine calls at a time. Canceling the context
// of Run closes the Conn; nothing else does.
type Conn interface {
	// Call sends one request and waits for its response. Progress, log messages and
	// requests of the server that belong to the call go to c.Back. The params are those
	// that the server gets, except for the id, the progress token and the metadata of
	// the era, which the Conn adds. When ctx ends, the Conn tells the server in the way
	// of its era and returns the error of ctx.
	//
	// The error is a *wire.Error that the server sent, a *CallError for everything that
	// went wrong on the way, or that of ctx.
	Call(ctx context.Context, c *call.Call) (call.Result, error)

	// Run serves what the server sends outside of calls. It returns the reason when the
	// conversation is over: ctx has ended, or the server is gone. If ctx has ended, the
	// server was told in the way of its era that nobody needs the pending calls. By then every
	// goroutine, process and connection of the conversation has ended, and the calls in
	// flight have failed.
	Run(ctx context.Context) error

	// Notify sends a notification without params. It does not block. A notification that
	// cannot be sent, or that the server's era does not know, is dropped.
	Notify(method string)

	// Probe checks in the background whether the server is alive, for the reason given,
	// and ends the conversation if it is not. It does not block.
	Probe(why Suspicion)

	// Ping sends the request with the least effect that the era has, and waits for the
	// response. It returns nil if the server responds with a result or a JSON-RPC error,
	// and otherwise the error of a Call.
	Ping(ctx context.Context) error

	// Listen subscribes to updates of these resources in the place of those before, and
	// returns the ones that the server has acknowledged. It is called only while Run
	// runs, and only if Traits().Listens is set. On errors, which are those of Call, the
	// subscriptions stay as they were.
	Listen(ctx context.Context, uris []string) ([]string, error)

	// Traits returns what else a caller must know. It does not change.
	Traits() Traits
}

// Suspicion is the reason for a probe.
type Suspicion uint8

const (
	// CallTimedOut means that the server may have stopped to answer. A server that
	// stays silent when it is asked again is given up, with ErrHung.
	CallTimedOut Suspicion = iota
	// ConnectionFailed means that the server may be gone, or may have forgotten the
	// session, as another session with it has noticed.
	ConnectionFailed
	// Idle means that some time has passed. A server that has sent nothing since the last
	// time, and has no call to answer, is probed as after CallTimedOut.
	Idle
)

// ErrHung and ErrIdleHung are the reasons for the end of a conversation whose server has
// stopped answering.
var (
	ErrHung     = errors.New("the server has stopped answering: a call timed out, and then it did not answer when asked whether it is there")
	ErrIdleHung = errors.New("the server has stopped answering: it did not answer when asked whether it is there")
)

// IsHung reports whether a conversation has ended because its server has stopped answering.
func IsHung(why error) bool { return errors.Is(why, ErrHung) || errors.Is(why, ErrIdleHung) }

// Traits describe a conversation independently of its transport.
type Traits struct {
	Sessions SessionKind
	// Listens says that Listen subscribes to resources; otherwise each subscription is a
	// separate request.
	Listens bool
	// Asks says that the server may send requests.
	Asks bool
	// HeaderParams says that calls of tools carry some of their arguments in headers.
	HeaderParams bool
	// Stream is the stream that notifications come on; nil if they need none.
	Stream *Stream
	// Address is the address of the server, if it has several; else nil.
	Address *Address
	// OpenLegacy reports whether a server that speaks both eras lets clients open a
	// legacy session, which it does if need be. It is nil for all others, and once the
	// server has refused a legacy session.
	OpenLegacy func(ctx context.Context) (bool, error)
}

// Address is one of several addresses of a server.
type Address struct {
	N int // distinguishes it from the others
	// Fails says that calls fail at this address. It reports whether another address may
	// work; the next conversation will use that address.
	Fails func() (others bool)
}

// SessionKind is the kind of an additional session with a server.
type SessionKind uint8

const (
	SessionUnknown SessionKind = iota // there was no conversation yet
	SessionProcess                    // a process
	SessionStream                     // an HTTP+SSE stream
	SessionHTTP                       // a session of streamable HTTP, which is cheap
	SessionNone                       // the server has no sessions
	SessionDual                       // a session of streamable HTTP for clients of the legacy era only
)

// Stream is the stream on which a server sends notifications that belong to no call.
// Its methods may be called concurrently.
type Stream struct {
	known chan struct{} // closed when it is known whether there is such a stream
	once  sync.Once     // closes known
	late  atomic.Bool   // Await has not waited for the first stream
}

// NewStream returns a Stream of which nothing is known yet.
func NewStream() *Stream { return &Stream{known: make(chan struct{})} }

// streamWait is how long the first lists wait for the stream on which the server
// announces their changes.
const streamWait = 100 * time.Millisecond

// Known is closed when it is known whether the server has such a stream.
func (s *Stream) Known() <-chan struct{} { return s.known }

// Await waits until it is known whether there is a stream, so that no change goes
// unnoticed between the listing and the opening of the stream. It does not wait for
// long; if the stream opens later, NotificationSink.Missed is called.
func (s *Stream) Await(ctx context.Context) {
	timer := time.NewTimer(streamWait)
	defer timer.Stop()
	select {
	case <-s.known:
	case <-timer.C:
		s.late.Store(true)
	case <-ctx.Done():
	}
}

// Opened reports whether Await did not wait for this first stream.
func (s *Stream) Opened() (late bool) { return s.late.Swap(false) }

// Settle notes that it is known whether there is a stream.
func (s *Stream) Settle() { s.once.Do(func() { close(s.known) }) }

// Dialer opens conversations with one configured server.
//
// Dial returns after initialize and notifications/initialized for legacy servers, and
// after server/discover for modern servers. ctx bounds the dialing only. in gets the
// notifications that belong to no call from then on. The error is a *wire.Error of the
// server, a *CallError, a *diagnose.HandshakeError that may wrap one, or that of ctx.
// A Dialer is used by one goroutine.
type Dialer interface {
	Dial(ctx context.Context, in NotificationSink) (Conn, Hello, error)
}

// NotificationSink takes the notifications of a server that belong to no call: list
// changes, updates, log messages. Its methods must not block.
type NotificationSink interface {
	Notified(method string, params wire.Raw)
	// Renewed says that the server has forgotten the state of the whole conversation:
	// subscriptions to resources, and the log level.
	Renewed()
	// Missed says that notifications may have been lost while no stream was open.
	Missed()
}

// Hello has the data about a server from the handshake.
type Hello struct {
	Revision     wire.Revision
	Info         wire.Raw // serverInfo, nil if there is none
	Capabilities wire.Raw // an object
	Instructions string
	Via          string // see MetaVia
}

// CallError is a call that failed without a response of the server: the server is
// down, slow, overloaded, or violates the protocol. Reason is for the client: it
// holds no secret and no internal address.
type CallError struct {
	Reason string
	// NotSent says that the server has certainly not begun the call, so that it may be
	// sent again.
	NotSent bool
	// ConnectionLost says that the connection broke before the response came,
	// ConversationClosed that the whole conversation ended with it. Over streamable
	// HTTP the first does not imply the second.
	ConnectionLost, ConversationClosed bool
	// MayHaveExecuted says that the server ended while it had the call, and may have
	// ended because of it: sending the call again may end it again.
	MayHaveExecuted bool
	// Unauthenticated says that the gateway has no credentials that the server accepts,
	// so that sending the call again would fail again, unless Temporary is set.
	Unauthenticated bool
	// NoCredentials says that the gateway could not obtain credentials for the request, which did not reach the
	// server: Cause is about what has or issues them. It implies NotSent and Unauthenticated.
	NoCredentials bool
	// Temporary says that credentials which could not be obtained may be obtained later.
	Temporary bool
	// TooLarge says that the server has answered with more than the gateway takes.
	TooLarge bool
	// RetryAfter is after how long it makes sense to send the call again, 0 if that is
	// not known.
	RetryAfter time.Duration
	Cause      error // for the log, may be nil
	// Passed reports whether the reason is gone by now, such as a grant that was missing. It returns soon. It is nil if
	// only another attempt can tell.
	Passed func() bool
}

func (e *CallError) Error() string {
	if e.Cause != nil && e.Cause.Error() != e.Reason {
		return e.Reason + ": " + e.Cause.Error()
	}
	return e.Reason
}

// RetryAfterOf returns the RetryAfter of the *CallError in err, 0 if there is none.
func RetryAfterOf(err error) time.Duration {
	if f, ok := errors.AsType[*CallError](err); ok {
		return f.RetryAfter
	}
	return 0
}

// PassedOf returns the Passed of the *CallError in err, nil if there is none.
func PassedOf(err error) func() bool {
	if f, ok := errors.AsType[*CallError](err); ok {
		return f.Passed
	}
	return nil
}

func (e *CallError) Unwrap() error { return e.Cause }

// ResultOf returns the result of a call from the response. The error is a *wire.Error of
// the server, or a *CallError if the result is not an object, as all revisions demand
// (2025-11-25 and 2026-07-28, schema, "Result").
func ResultOf(m wire.Message, rev wire.Revision) (call.Result, error) {
	if m.Error != nil {
		return call.Result{}, m.Error
	}
	r := call.Result{Raw: m.Result, Revision: rev, Extra: m.Extra, Long: m.Long, Buffer: m.Buffer}
	root := r.Value()
	if root.Kind() != '{' {
		return call.Result{}, &CallError{Reason: "the result in the server's answer is no object"}
	}
	// Of two members it is not known which one a client reads.
	r.Complete = rev.Era() == wire.EraModern && !m.DeepDuplicates && root.Get("resultType").IsString("complete")
	return r, nil
}

// ReleasesResult reports whether the result of a method may be in memory that is released
// when the client has it. Other results may be kept in a catalog or a table of tasks.
func ReleasesResult(method string) bool { return wire.MethodOf(method).Kind == wire.KindCall }

const (
	// RetryOverloaded is the RetryAfter of a call that found no free slot: how long the
	// running calls take is not known.
	RetryOverloaded = 5 * time.Second
	// MaxRetryAfter bounds the RetryAfter that a server can ask for.
	MaxRetryAfter = time.Hour
	// LargeCall is the size of params, in bytes, from which a call may have been the
	// reason why a server ended, so that it is not sent again.
	LargeCall = 1 << 20
)
