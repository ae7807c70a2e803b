package protocol

import (
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Config configures a conversation over any transport. Every member but Throttle is set.
type Config struct {
	Logger     *zap.Logger
	Mask       func(text string) string // removes secrets from a text of the server
	MaxMessage int                      // bytes of one message of the server
	Limits     wire.Limits
	Era        wire.Era // EraUnknown: find it out
	Memory     KnownEra
	Info       Info
	Roots      []Root // for roots/list in shared sessions
	Owner      SessionOwner
	Loops      LoopDetector
	Throttle   *Throttle // of the readers
	// Refusals limits the log lines about refused requests of servers.
	Refusals *rate.Limiter
}

// Info is how the gateway introduces itself.
type Info struct{ Name, Version string }

// Root is a place that a server may work in (2025-11-25, client/roots).
type Root struct{ URI, Name string }

// KnownEra remembers the era of one server.
type KnownEra interface {
	Era() wire.Era         // EraUnknown if it is not known
	Remember(era wire.Era) // EraUnknown forgets it
}

// SessionOwner answers for the clients of a session. Its methods are called concurrently,
// and must not block.
type SessionOwner interface {
	// Capabilities returns the capabilities that the session declares in initialize.
	Capabilities() wire.Raw
	// RelaysRoots reports whether roots/list goes to a client.
	RelaysRoots() bool
	// Principal returns the principal of requests that belong to no call, nil for the
	// gateway itself.
	Principal() *call.Principal
	// Addressee returns the call for a request of the server that arrived outside the
	// streams of calls, nil if the call is not certain. inFlight is the call that the
	// pending calls suggest, or nil.
	Addressee(method string, inFlight *call.Call) *call.Call
	// Task returns a call in place of the one that began a task, nil if no client is known
	// to wait for the task.
	Task(id string) *call.Call
	// Answered says that the server got the response to a request that it had sent.
	Answered(method string)
	// Refused says that a request of the server was refused because several clients are
	// possible.
	Refused(method string)
	// ConnectionFailed says that a request has failed on its way, so that other sessions
	// with the server are probed.
	ConnectionFailed()
	// Printed says that the server has printed this text, which is not MCP, before any
	// message; nil says that a message has come.
	Printed(text []byte)
	// Skipped says that the server has printed this line, which is no message and fails no call.
	Skipped(line []byte)
	// Wrote says what the server's standard error says most about now: a line that names an
	// error, or its last line. It is masked and bounded.
	Wrote(line string, isError bool)
}

// LoopDetector keeps the ids of the gateways in front of and behind this one.
type LoopDetector interface {
	// Via returns the ids that the gateway sends to the server, "" for none.
	Via() string
	// Check takes the ids that the server sent. The error is a *CallError that says that
	// the server leads back to this gateway.
	Check(via string) error
}

// MaxReason bounds the reason of a failure: it may contain text of the server, and
// every client gets it.
const MaxReason = 1 << 10

// Reason masks and bounds the reason of a failure.
func (c *Config) Reason(why string) string { return plaintext.Truncate(c.Mask(why), MaxReason) }

// ErrorField returns the log field of an error that may contain text of the server.
func (c *Config) ErrorField(err error) zap.Field { return zap.String("error", c.Reason(err.Error())) }
