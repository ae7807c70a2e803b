package router

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Auditor writes the lines of an audit. A line is a JSON object that ends with the only line
// break in it. The methods may be called concurrently, and must not retain the line.
type Auditor interface {
	// Before writes the line of an action before it is done. After an error the action is
	// not done.
	Before(line []byte) error
	// After writes the line of an action that was done, soon. It does not wait for that.
	After(line []byte)
}

// Audit configures the record of calls that name an item and of requests about tasks.
type Audit struct {
	To Auditor
	// Arguments has the arguments of tools and prompts recorded beside their digest, except
	// those that Redact covers.
	Arguments bool
	Redact    []Path
}

// The events of lines. A call has a line with the decision, before the decision has any effect,
// and a line with its end. If the end is missing, the process ended while the call ran. Lists
// name no item, and have no lines.
const (
	auditDecision = "decision"
	auditConsent  = "consent" // the outcome of the question to the client's user
	auditResume   = "resume"  // a decision on a request that continues a call; the call has its own end
	auditEnd      = "end"
)

// errUnaudited is the answer to every call while the audit cannot be written, whether or not
// the item exists.
var errUnaudited = wire.Errorf(wire.CodeInternal,
	"the gateway cannot write its audit, and makes no calls meanwhile; try again later").
	WithData(wire.Raw(`{"reason":"the audit cannot be written","retryable":true}`))

// Bounds of text of clients and identity providers in one line, in bytes.
const (
	maxAuditName      = 256
	maxAuditItem      = 1024
	maxAuditArguments = 64 << 10
)

// auditedItem is the item of a decision.
type auditedItem struct {
	kind             call.Kind
	public           string
	upstream, native string // "" if there is no such item
	listed           bool   // by an upstream: no part of the name is from a client
}

// auditLine is one line that is being written.
type auditLine struct{ b []byte }

var auditLines = sync.Pool{New: func() any { return new(auditLine) }}

// newAuditLine begins a line. The line of a refusal has the groups and scopes of the principal, which may be why.
func newAuditLine(event string, c *call.Call, refusal bool) *auditLine {
	l := auditLines.Get().(*auditLine)
	l.b = append(l.b[:0], `{"time":"`...)
	l.b = plaintext.AppendTime(l.b, time.Now()) // the form of the log, too
	l.b = append(l.b, '"')
	l.text("event", event, maxAuditName)
	l.text("request", c.ID, maxAuditName)
	l.text("method", methodLabel(c.Method), maxAuditName)
	l.b = append(l.b, `,"principal":{"subject":`...)
	l.b = wire.AppendString(l.b, plaintext.Clip(c.Principal.Subject, maxAuditName))
	if c.Principal.Issuer != "" {
		l.text("issuer", c.Principal.Issuer, maxAuditName)
	}
	l.text("proof", c.Principal.AuthMethod, maxAuditName)
	if c.Principal.KeyID != "" {
		l.text("key", c.Principal.KeyID, maxAuditName)
	}
	if refusal {
		l.texts("groups", plaintext.ClipList(c.Principal.Groups))
		l.texts("scopes", plaintext.ClipList(c.Principal.Scopes))
	}
	l.b = append(l.b, '}')
	if c.By != "" {
		l.text("by", c.By, maxAuditName)
	}
	if c.Principal.Profile != "" {
		l.text("profile", c.Principal.Profile, maxAuditName)
	}
	if id := c.Trace.ID(); id != "" {
		l.text("trace_id", id, maxAuditName)
	}
	if c.Remote != "" {
		l.text("remote", strings.TrimSuffix(c.Remote, ":0"), maxAuditName)
	}
	return l
}

func (l *auditLine) text(name, value string, most int) {
	l.b = append(append(append(l.b, `,"`...), name...), `":`...)
	l.b = wire.AppendString(l.b, plaintext.Clip(value, most))
}

// texts adds a list whose length is bounded, unless it is empty.
func (l *auditLine) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	l.b = append(append(append(l.b, `,"`...), name...), `":`...)
	for i, v := range values {
		l.b = append(l.b, "[,"[min(i, 1)])
		l.b = wire.AppendString(l.b, v)
	}
	l.b = append(l.b, ']')
}

func (l *auditLine) number(name string, n int64) {
	l.b = append(append(append(l.b, `,"`...), name...), `":`...)
	l.b = strconv.AppendInt(l.b, n, 10)
}

// client adds what the client says of itself.
func (l *auditLine) client(c *call.Client) {
	info := wire.ValueOf(c.Info)
	l.b = append(l.b, `,"client":{"revision":`...)
	l.b = wire.AppendString(l.b, string(c.Revision))
	for _, member := range []string{"name", "version"} {
		if text, ok := info.Get(member).Text(); ok {
			l.text(member, text, maxAuditName)
		}
	}
	l.b = append(l.b, '}')
}

func (l *auditLine) item(it *auditedItem) {
	l.text("kind", it.kind.String(), maxAuditName)
	l.text("item", it.public, maxAuditItem)
	if it.upstream != "" {
		l.text("upstream", it.upstream, maxAuditName)
		l.text("native", it.native, maxAuditItem)
	}
}

// arguments adds the digest of the arguments of a tool or prompt, and the arguments if they are
// recorded.
func (l *auditLine) arguments(a *Audit, params wire.Raw) {
	given := wire.ValueOf(params).Get("arguments").Raw()
	if given == nil {
		return
	}
	l.b = wire.AppendDigest(append(l.b, `,"digest":"`...), given)
	l.b = append(l.b, '"')
	switch {
	case !a.Arguments:
	case len(given) > maxAuditArguments:
		l.number("arguments_too_long", int64(len(given)))
	default:
		l.b = append(l.b, `,"arguments":`...)
		l.b = appendOneLine(l.b, redact(given, a.Redact))
	}
}

// appendOneLine appends JSON with spaces in the place of its line breaks.
func appendOneLine(b []byte, raw wire.Raw) []byte {
	for _, c := range raw {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// end closes the line, which is valid until free.
func (l *auditLine) end() []byte {
	l.b = append(l.b, "}\n"...)
	return l.b
}

func (l *auditLine) free() {
	if cap(l.b) <= maxAuditArguments {
		auditLines.Put(l)
	}
}

// record writes the line of a decision. The error is errUnaudited.
func (a *Audit) record(event string, c *call.Call, it *auditedItem, d *policy.Decision) error {
	l := newAuditLine(event, c, d.Denied())
	defer l.free()
	if c.Trace != nil && c.Trace.First != "" {
		l.text("first_request", c.Trace.First, maxAuditName)
	}
	l.client(c.Client)
	l.item(it)
	l.text("effect", d.Effect.String(), maxAuditName)
	l.text("rule", d.Rule, maxAuditName)
	if d.File != "" {
		l.text("file", d.File, maxAuditItem)
		l.number("line", int64(d.Line))
	}
	l.arguments(a, c.Params)
	return a.before(l)
}

// consent writes the outcome of the question whether the call may be made. The error is
// errUnaudited.
func (a *Audit) consent(c *call.Call, public, outcome string) error {
	if outcome == askAnswered {
		outcome = "accepted"
	}
	l := newAuditLine(auditConsent, c, false)
	defer l.free()
	l.text("item", public, maxAuditItem)
	l.text("outcome", outcome, maxAuditName)
	return a.before(l)
}

func (a *Audit) before(l *auditLine) error {
	if a.To.Before(l.end()) != nil {
		return errUnaudited
	}
	return nil
}

// auditEnd writes the line of a call's end into the audit, which the router has. log has the
// upstream of the item.
func (r *Router) auditEnd(c *call.Call, public string, log *logFields, res call.Result, duration time.Duration, err error) {
	if errors.Is(err, errUnaudited) {
		return // nothing was done, and no line can be written
	}
	outcome := log.outcomeOf(c, res.Raw, err)
	l := newAuditLine(auditEnd, c, isRefusal(outcome))
	defer l.free()
	upstream := log.named()
	if upstream == "" { // the client may have made up the name
		public = r.masked(public)
	}
	if public != "" {
		l.text("item", public, maxAuditItem)
	}
	if upstream != "" {
		l.text("upstream", upstream, maxAuditName)
	}
	l.text("outcome", outcome, maxAuditName)
	switch rpc, ok := errors.AsType[*wire.Error](err); {
	case ok:
		l.number("code", rpc.Code)
	case log.stopped, errors.Is(err, context.DeadlineExceeded): // the front end has the error for the client
		l.number("code", wire.CodeInternal)
	}
	if reason := r.reasonOf(outcome, c, log, err); reason != "" {
		l.text("reason", reason, 2*maxReason) // it is bounded already
	}
	l.texts("asks", log.asks)
	l.texts("violations", log.violations)
	l.b = append(l.b, `,"duration_ms":`...)
	l.b = strconv.AppendFloat(l.b, milliseconds(duration), 'f', -1, 64)
	r.audit.To.After(l.end())
}

// outcomeOfResult returns the outcome of a call that did not end with a protocol error.
func outcomeOfResult(method string, raw wire.Raw) string {
	if wire.MethodOf(method).Kind == wire.KindList {
		return outcomeOK // without reading the whole list
	}
	var kind, task, isError wire.Value
	for m := range wire.ValueOf(raw).Members() { // one walk: the content may be long
		switch {
		case !kind.Exists() && m.Is("resultType"):
			kind = m.Value
		case !task.Exists() && m.Is("task"):
			task = m.Value
		case !isError.Exists() && m.Is("isError"):
			isError = m.Value
		}
	}
	switch ofTool := method == wire.MethodToolsCall; {
	case kind.IsString("input_required"):
		return "input_required"
	case kind.IsString("task"), ofTool && task.Kind() == '{':
		return "task"
	case ofTool && isError.Bool():
		return outcomeToolError
	default:
		return outcomeOK
	}
}

// auditedName returns the public name of the item that a call names, and whether the audit has
// a line with the end of the call.
func auditedName(c *call.Call) (public string, ok bool) {
	ref, named, err := namespace.ItemRefOf(c.Method, c.Params)
	return ref.Name, named || err != nil || wire.MethodOf(c.Method).Kind == wire.KindTask
}
