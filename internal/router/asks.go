package router

import (
	"context"
	"errors"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/wire"
)

// backChannel brings what comes before the result to the client: under public
// names, in the form that the client's revision knows, and with the name of who
// asks.
type backChannel struct {
	r    *Router
	to   call.BackChannel
	part *catalog.Part // that asks
	// session is that with the upstream which the call goes through.
	session string
	// who and client made the call.
	who    *call.Principal
	client *call.Client
	limits *held // what the call has taken out of limits, nil for nothing
}

func (b *backChannel) Notify(method string, params wire.Raw) {
	if !wire.MethodOf(method).KnownTo(b.client.Revision) {
		b.r.metrics.lowered(downlevel.Counts{downlevel.Notification: 1})
		return
	}
	if method == wire.NoteResourceUpdated && !b.maySee(wire.ValueOf(params).Get("uri").Str()) {
		return
	}
	b.to.Notify(method, b.part.Space().NoteParams(method, params))
}

// maySee reports whether the client may hear of a resource of the upstream.
func (b *backChannel) maySee(native string) bool {
	view := b.r.Routes().view(b.who, b.client)
	part := view.Part(b.part.Upstream())
	return part != nil && view.Judge(call.Resource, part, part.Space().PublicURI(native), native).Listed().Visible()
}

// Ask puts a question to the client. What the client cannot answer, and what it
// does not answer in time, is answered for it.
func (b *backChannel) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	answer, outcome, err := b.ask(ctx, method, params)
	b.r.metrics.asked(method, outcome)
	return answer, err
}

func (b *backChannel) ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, string, error) {
	if bridge.Unclear(wire.ValueOf(params)) {
		return nil, askUndeclared, wire.Errorf(wire.CodeInvalidParams, "the question has a member twice")
	}
	fitted, ok := bridge.Fit(b.client, method, params)
	if !ok || !bridge.Declared(b.client, method, params) {
		answer, refusal := bridge.Refused(b.client, method)
		if !ok && method == wire.MethodElicit && !isURL(params) {
			answer, refusal = bridge.Cancelled(), nil // the mode is declared; it is the form that is too new
		}
		return answer, askUndeclared, asError(refusal)
	}
	timed, cancel := context.WithTimeout(ctx, b.r.terms().AskTimeout)
	defer cancel()
	b.limits.ask()
	defer b.limits.answered()
	answer, err := b.to.Ask(timed, method, b.r.shown(b.part, b.session, b.client, method, b.part.Space().AskParams(method, fitted)))
	var refusal *wire.Error
	switch {
	case err == nil:
		return answer, outcomeOfAnswer(method, answer), nil
	case errors.As(err, &refusal):
		return nil, askError, refusal
	case ctx.Err() == nil && timed.Err() != nil:
		answer, refusal := bridge.Lapsed(method)
		return answer, askLapsed, asError(refusal)
	default:
		return nil, askEnded, err
	}
}

// shown returns the params of a question, under public names, as the client
// sees them.
func (r *Router) shown(part *catalog.Part, session string, client *call.Client, method string, params wire.Raw) wire.Raw {
	params = bridge.NoContext(method, r.cleanAsk(part, method, params))
	if r.Routes().Table.Enriches() {
		params = enrich.RequestAnnotations(method, params)
	}
	if !r.terms().Unlabelled {
		params = bridge.Label(part.Upstream(), method, params)
	}
	if method == wire.MethodElicit && isURL(params) {
		params = r.ownID(scope(part.Upstream(), session), client, params)
	}
	return params
}

// ownID gives a URL elicitation an id of the client's own. Legacy clients need
// one, modern ones do not know it.
func (r *Router) ownID(scope string, client *call.Client, params wire.Raw) wire.Raw {
	e := wire.NewEdit(params)
	id := e.Root().Get("elicitationId")
	if client.Era() == wire.EraModern {
		if !id.Exists() {
			return params
		}
		e.Remove(e.Root(), "elicitationId")
		return e.Bytes()
	}
	e.Set(e.Root(), "elicitationId", wire.String(r.elicitations.Public(scope, id.Str(), client.Key)))
	return e.Bytes()
}

// scope names the place in which an upstream's own ids are unique: a session may
// be a process of its own.
func scope(upstream, session string) string {
	if session == "" {
		return upstream
	}
	return upstream + "\x00" + session
}

// Outside returns a back channel for what an upstream sends to a client outside of
// calls, in the session with this name, by way of to. It is nil when the client
// knows no such upstream.
func (r *Router) Outside(upstream, session string, who *call.Principal, client *call.Client, to call.BackChannel) call.BackChannel {
	part := r.Routes().view(who, client).Part(upstream)
	if part == nil {
		return nil
	}
	return &backChannel{r, to, part, session, who, client, nil}
}

// Completed finds out for whom an upstream's notification is, in the session with
// this name, that a URL elicitation has been completed, and returns the key of that client and the
// params under its own id, and false when it is for nobody.
func (r *Router) Completed(upstream, session string, params wire.Raw) (client string, own wire.Raw, ok bool) {
	e := wire.NewEdit(params)
	id := e.Root().Get("elicitationId")
	client, public, ok := r.elicitations.Complete(scope(upstream, session), id.Str())
	if !ok || id.Kind() != '"' {
		return "", nil, false
	}
	e.ReplaceString(id, public)
	return client, e.Bytes(), true
}

func isURL(params wire.Raw) bool { return wire.ValueOf(params).Get("mode").IsString("url") }

// asError keeps a nil *wire.Error from becoming an error that is not nil.
func asError(e *wire.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// The outcomes of asks, beside the actions of elicitation.
const (
	askAnswered   = "answered"
	askDeclined   = "declined"
	askCancelled  = "cancelled"
	askError      = "error"      // the client answered with an error
	askUnshown    = "unshown"    // the question would be too long to show what it is about
	askUndeclared = "undeclared" // the client cannot answer such a question
	askLapsed     = "lapsed"     // nobody answered in time
	askEnded      = "ended"      // the call ended, or the upstream took the question back
	askRelayed    = "relayed"    // the client answers in a request of its own
	askRefused    = "refused"    // nobody knows whom it is for
)

// outcomeOfAnswer sorts answers by a fixed set of words, whatever they hold.
func outcomeOfAnswer(method string, answer wire.Raw) string {
	action := wire.ValueOf(answer).Get("action")
	switch {
	case method != wire.MethodElicit, action.IsString("accept"):
		return askAnswered
	case action.IsString("decline"):
		return askDeclined
	default:
		return askCancelled
	}
}

// asked counts one ask. The label kind takes a fixed set of values.
func (m *Metrics) asked(method, outcome string) {
	kind := "other"
	if ask := wire.MethodOf(method); ask.Kind == wire.KindAsk {
		kind = ask.Capability
	}
	m.asks.WithLabelValues(kind, outcome).Inc()
}

// AskRefused counts a question of an upstream that was put to nobody, because
// nobody knows whom it is for.
func (m *Metrics) AskRefused(method string) { m.asked(method, askRefused) }

// confirmed counts one question of the gateway's own, whether a call may be made.
func (m *Metrics) confirmed(outcome string) { m.asks.WithLabelValues("confirmation", outcome).Inc() }

const defaultAskTimeout = 5 * time.Minute
