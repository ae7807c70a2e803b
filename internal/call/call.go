package call

import (
	"context"
	"errors"
	"strings"
	"time"

	"mcpgateway/internal/gzipped"
	"mcpgateway/internal/wire"
)

// Call is one request on its way from a client to an upstream, or to the gateway itself.
type Call struct {
	// ID is the request id: log, audit and errors of the gateway have it. It is a token of
	// bounded length. The client may have chosen it, so it need not be unique.
	ID        string
	Method    string
	Params    wire.Raw // an object or nil, without members of the client's transport
	Principal *Principal
	Client    *Client
	// By names the person who makes the call in the name of Principal, "" if Principal does. Only
	// the gateway sets it.
	By string
	// WithoutGrants says that the call uses no grant of Principal, because By may not use it.
	WithoutGrants bool
	// Remote is the address of the client, "" if it has none. A port of 0 is not known.
	Remote string
	// ShareKey says which share of a budget that all clients use the call counts for.
	// It is equal for calls of one principal and, without authentication, for calls of
	// one address or of one program on this machine.
	ShareKey uint64
	// LogLevel is the lowest level of the log messages that the client wants for this
	// call; LevelNone means none.
	LogLevel wire.Level
	// LevelUnset says that the client has asked for no level: LogLevel is for servers that need one.
	LevelUnset bool
	// Back carries messages to the client before the result. It is never nil.
	Back BackChannel
	// Session is the id of the upstream session that the call uses, as the upstream has
	// assigned it; "" means the shared session.
	Session string
	// TakesRounds says that the client accepts an input_required result.
	TakesRounds bool
	// Trace records the time that the call spends in its stages; nil records nothing.
	Trace *Trace
	// TraceContext goes into the headers of a request to the upstream. It is nil if calls are not
	// traced.
	TraceContext *TraceContext
	// Depth is the number of calls of the gateway's own tools that this call is made by, each
	// inside of the next. It is 0 for the request of a client.
	Depth uint8
}

// MaxReused bounds the params whose memory others use again after the handler of their call
// has returned. Nobody writes to the memory of longer params, so that they need not be
// copied for a reader that may outlive the call.
const MaxReused = 256 << 10

// With returns a copy of the call with other params.
func (c *Call) With(params wire.Raw) *Call {
	d := *c
	d.Params = params
	return &d
}

// BackChannel carries messages from an upstream to the client while a call runs. Its
// methods are safe for concurrent use. They must not be called after the handler of the
// call has returned.
type BackChannel interface {
	// Notify sends a notification (progress, log message) to the client. It does not wait
	// until the client has read it, and ignores clients that are gone.
	Notify(method string, params wire.Raw)
	// Ask sends a request of the upstream to the client and waits for the response. The
	// error is a *wire.Error of the client or the gateway, ErrLapsed, or that of ctx.
	Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)
}

// ErrLapsed is the error of a question whose call was parked, and whose client did not come back in
// time, or before the gateway ended.
var ErrLapsed = errors.New("the client did not answer the question in time")

// Result is the result of a call.
type Result struct {
	Raw wire.Raw // the result object
	// Revision is the protocol revision of the upstream that answered, "" if the gateway
	// answered itself.
	Revision wire.Revision
	// Complete says that Raw, as it was read, has no resultType other than "complete". If it is
	// false, the resultType is not known.
	Complete bool
	// Extra contains unknown members of the response's envelope, see wire.Message.
	Extra string
	// Long is about Raw as it was read, or nil.
	Long *wire.Long
	// Buffer is the memory that Raw was read into, or nil. The writer of the result may
	// release it if no slice of it is used any more.
	Buffer *wire.Buffer
	// Page is set if the result is a page of a list that the gateway keeps. The result then has
	// every member that the revision of the client requires.
	Page *Page
}

// Value returns the value of Raw.
func (r *Result) Value() wire.Value { return r.Long.ValueOf(r.Raw) }

// Page has the parts of a kept page that are the same in all answers. It is immutable.
type Page struct {
	Start int           // the bytes of Raw from here on are the same in all answers with Text
	Text  *gzipped.Text // the compressed form of these bytes and the end of the response
}

// Refused is an error of a call with a specific HTTP status. It unwraps to the *wire.Error that the
// client gets on every transport.
type Refused struct {
	Err *wire.Error
	// RetryAfter says when to try again after a limit was reached. If it is not 0, the
	// status is 429.
	RetryAfter time.Duration
	// Scopes are the scopes that the principal lacks. If there are any, the status is
	// 403.
	Scopes []string
}

// GrantRequired is the error of a call whose principal has to grant access to the upstream first, on a
// page that its client cannot open. It unwraps to the *wire.Error that the client gets.
type GrantRequired struct{ Err *wire.Error }

// Error returns the text of Err.
func (e *GrantRequired) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *GrantRequired) Unwrap() error { return e.Err }

// ClientGone is the cause with which the context of a call ends if its client does not wait for the
// answer any more. With any other cause the client gets an error, with the code -32603.
type ClientGone string

// Error returns the text.
func (e ClientGone) Error() string { return string(e) }

// ErrNoItem says that an item of the gateway itself does not exist. The router answers as for every
// item that does not exist.
var ErrNoItem = errors.New("the gateway has no such item")

// Error returns the text of Err.
func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Refused) Unwrap() error { return e.Err }

// Principal is the authenticated sender of a call, in one profile. It is immutable, and
// compared by Key or by Identity.
type Principal struct {
	// Profile is the profile through which the principal calls, "" for the default profile.
	Profile    string
	Subject    string
	Issuer     string
	Groups     []string
	Scopes     []string
	AuthMethod string // "none", "api-key", "jwt", "mtls" or "local"
	// KeyID is the id of the API key, "" for other credentials. The log and the audit have it, and
	// sessions end if the key that began them is revoked. It is no part of Key and Identity: a
	// principal may replace one key by another.
	KeyID  string
	Claims wire.Raw // the claims of the access token, an object; nil for none
	// Expires is when the credentials expire, zero for never. Requests are authenticated
	// one by one; connections and subscriptions must end at that time.
	Expires time.Time
	// Token is the access token, if the principal authenticated with one. It can be
	// exchanged for another token (RFC 8693).
	Token Token
}

// Authentication methods of principals without credentials.
const (
	methodNone  = "none"
	methodLocal = "local"
)

// Anonymous is the principal of all calls at the default profile if authentication is not
// configured.
var Anonymous = &Principal{Subject: "anonymous", AuthMethod: methodNone}

// Local is the principal of the user who started the process and uses it over pipes, at the default
// profile.
var Local = &Principal{Subject: "local", AuthMethod: methodLocal}

// In returns the principal in a profile. It is p itself if that is its profile, else a copy.
func (p *Principal) In(profile string) *Principal {
	if p.Profile == profile {
		return p
	}
	q := *p
	q.Profile = profile
	return &q
}

// IsAnonymous reports whether the principal is Anonymous, in any profile.
func (p *Principal) IsAnonymous() bool { return p.AuthMethod == methodNone }

// IsLocal reports whether the principal is Local, in any profile.
func (p *Principal) IsLocal() bool { return p.AuthMethod == methodLocal }

// Key identifies the principal in its profile. It is equal for the same subject of the same issuer
// with the same AuthMethod in the same profile, even if the groups differ. All state that a call
// leaves for later calls is bound to it, so state of one profile is not valid in another.
func (p *Principal) Key() string {
	if p.Profile == "" {
		return p.Identity()
	}
	return strings.Join([]string{profileMark + p.Profile, p.AuthMethod, p.Issuer, p.Subject}, "\x00")
}

// Identity identifies the principal in all profiles. It is the Key in the default profile. Only
// credentials, grants and budgets are bound to it, so that a principal cannot multiply its budgets
// by using several profiles.
func (p *Principal) Identity() string {
	return strings.Join([]string{p.AuthMethod, p.Issuer, p.Subject}, "\x00")
}

// profileMark begins the keys of principals in profiles. No AuthMethod begins with it, so that
// no subject can name a profile.
const profileMark = "@"

// ProfileOf returns the profile of the principal with this Key.
func ProfileOf(key string) string {
	rest, ok := strings.CutPrefix(key, profileMark)
	if !ok {
		return ""
	}
	profile, _, _ := strings.Cut(rest, "\x00")
	return profile
}

// Same reports whether two principals have the same Key.
func (p *Principal) Same(q *Principal) bool {
	return p == q || p.Subject == q.Subject && p.Profile == q.Profile && p.AuthMethod == q.AuthMethod && p.Issuer == q.Issuer
}

// Client is the downstream peer as it described itself. It is immutable.
type Client struct {
	// Key identifies the client as far as possible: it is the session for legacy clients,
	// and distinguishes the other clients of one principal. It does not identify the
	// principal. Unguessable parts of it never leave the process.
	Key string
	// Sessionless says that the client has no session: it cannot be reached outside of
	// its calls, and its Key may be that of this call alone.
	Sessionless  bool
	Revision     wire.Revision
	Info         wire.Raw // clientInfo, nil if absent
	Capabilities wire.Raw // nil if absent
}

// Era returns the era of the client's revision.
func (c *Client) Era() wire.Era { return c.Revision.Era() }

// Can reports whether the client declared the capability with this path, such as
// "elicitation", "url".
func (c *Client) Can(path ...string) bool {
	return wire.ValueOf(c.Capabilities).Get(path...).Kind() == '{'
}
