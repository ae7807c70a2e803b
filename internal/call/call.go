package call

import (
	"context"
	"strings"
	"time"

	"mcpgateway/internal/wire"
)

// Call is one request on its way from a client to whoever answers it.
type Call struct {
	ID        string // names the call in logs; unguessable, never seen by peers
	Method    string
	Params    wire.Raw // an object or nil; without members of the client's transport
	Principal *Principal
	Client    *Client
	// ShareKey says which share of a budget that all clients use the call counts for.
	// It is equal for calls of one principal and, without authentication, for calls of
	// one address or of one program on this machine.
	ShareKey uint64
	// LogLevel is the least grave log message that the client wants to see of
	// this call; LevelNone means none at all.
	LogLevel wire.Level
	// Back carries what comes back before the result. Never nil.
	Back BackChannel
	// Session names the session with the upstream that the call goes through, as
	// the upstream named it; "" is the one that all share.
	Session string
	// TakesRounds says that the client can be handed an input_required result
	// as it is.
	TakesRounds bool
}

// With returns a copy of the call with other params.
func (c *Call) With(params wire.Raw) *Call {
	d := *c
	d.Params = params
	return &d
}

// BackChannel carries messages from an upstream to the client while a call
// runs. Its methods may be called from several goroutines, and not after the
// handler of the call has returned.
type BackChannel interface {
	// Notify passes a notification (progress, log message) to the client. It
	// does not wait for the client to read it. A client that is gone is no
	// error.
	Notify(method string, params wire.Raw)
	// Ask puts a question of the upstream to the client and waits for the
	// answer. The error is a *wire.Error, the client's or the gateway's, or
	// that of ctx.
	Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)
}

// Result is the answer to a call.
type Result struct {
	Raw wire.Raw // the result object
	// Revision is what the answering upstream spoke, "" when the gateway
	// answered by itself.
	Revision wire.Revision
	// Extra holds unknown members of the response's envelope, see wire.Message.
	Extra string
}

// Refused is an error of a call for which HTTP has a status of its own. It
// unwraps to the *wire.Error that the client gets on every transport.
type Refused struct {
	Fault *wire.Error
	// RetryAfter, over 0, says that a bound is reached, and when to try again: 429.
	RetryAfter time.Duration
	// Scopes, if any, are those that the proof of the principal lacks: 403.
	Scopes []string
}

// Error returns what the fault says.
func (e *Refused) Error() string { return e.Fault.Error() }

// Unwrap returns the fault.
func (e *Refused) Unwrap() error { return e.Fault }

// Principal is who calls. It is immutable and compared by Key.
type Principal struct {
	Subject    string
	Issuer     string
	Groups     []string
	Scopes     []string
	AuthMethod string   // how they proved it: "none", "api-key", "jwt", "mtls", "local"
	Claims     wire.Raw // what else the proof says, an object; nil for nothing
	// Expires is when the proof is good no more, zero for never. Requests are
	// proved anew; what outlives them must not outlive it.
	Expires time.Time
	// Token is the proof itself where that is an access token, for an exchange
	// against another (RFC 8693).
	Token Token
}

// Anonymous is the one principal there is when no proof is asked for.
var Anonymous = &Principal{Subject: "anonymous", AuthMethod: "none"}

// Local is whoever has started the process, and talks to it on its pipes.
var Local = &Principal{Subject: "local", AuthMethod: "local"}

// Key identifies the principal: equal for the same subject of the same issuer
// with the same kind of proof, whatever their groups are at the moment.
func (p *Principal) Key() string {
	return strings.Join([]string{p.AuthMethod, p.Issuer, p.Subject}, "\x00")
}

// Client is the downstream peer as it described itself. It is immutable.
type Client struct {
	// Key is the same for calls that come from one client, and for no others as
	// far as can be told: the session for legacy clients; for others what tells
	// those of one principal apart. Who calls is not the Key's to say but the
	// principal's. Unguessable parts of it never leave the process.
	Key string
	// Sessionless says that the client has no session, so that it cannot be
	// reached outside of its calls, and its Key may stand for this call alone.
	Sessionless  bool
	Revision     wire.Revision
	Info         wire.Raw // clientInfo, nil when it gave none
	Capabilities wire.Raw // nil when it declared none
}

// Era returns the era of the client's revision.
func (c *Client) Era() wire.Era { return c.Revision.Era() }

// Can reports whether the client declared the capability at this path, for
// example "elicitation", "url".
func (c *Client) Can(path ...string) bool {
	return wire.ValueOf(c.Capabilities).Get(path...).Kind() == '{'
}
