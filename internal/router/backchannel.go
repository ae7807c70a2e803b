package router

import (
	"context"
	"errors"
	"slices"
	"sync"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/wire"
)

// backChannel brings what comes before the result to the client: under public names, in
// the form that the client's revision knows, and with the name of the upstream.
type backChannel struct {
	asker
	to          call.BackChannel
	principal   *call.Principal // that made the call
	reservation *reservation    // what the call has taken out of limits, nil for nothing
	trace       *call.Trace     // of the call, nil for none
	asks        *unansweredAsks // of the call, nil for none
}

func (b *backChannel) Notify(method string, params wire.Raw) {
	if !wire.MethodOf(method).KnownTo(b.client.Revision) {
		b.router.metrics.countDownlevel(downlevel.Counts{downlevel.Notification: 1})
		return
	}
	if method == wire.NoteResourceUpdated && !b.maySee(wire.ValueOf(params).Get("uri").Str()) {
		return
	}
	b.to.Notify(method, b.part.Naming().NoteParams(method, params))
}

// maySee reports whether the client may be notified about a resource of the upstream.
func (b *backChannel) maySee(native string) bool {
	view := b.routes.view(b.router.latest(b.principal), b.client)
	return view.PolicyFor(call.Resource, b.part, b.part.Naming().PublicURI(native), native).Listed().Visible()
}

// Ask puts a question to the client. If the client cannot answer it, or does not answer in time,
// the gateway answers for it.
func (b *backChannel) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	timer := b.trace.Start(ctx, call.StageAsk, call.SpanStart{Method: method, Upstream: b.part.Upstream(), Params: params})
	answer, outcome, err := b.ask(ctx, method, params)
	timer.End(err)
	b.router.metrics.countAsk(method, outcome)
	b.asks.add(method, outcome)
	return answer, err
}

func (b *backChannel) ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, string, error) {
	if bridge.HasDuplicateMember(wire.ValueOf(params)) {
		return nil, askUndeclared, wire.Errorf(wire.CodeInvalidParams, "the question has a member twice")
	}
	fitted, ok := bridge.AdaptQuestion(b.client, method, params)
	if !ok || !bridge.Declared(b.client, method, params) {
		answer, refusal := bridge.Undeclared(b.client, method)
		if !ok && method == wire.MethodElicit && !isURL(params) {
			answer, refusal = bridge.CancelledElicitation(), nil // the mode is declared; the form is too new
		}
		return answer, askUndeclared, asError(refusal)
	}
	timed, cancel := context.WithTimeout(ctx, b.routes.bridgeSettings().AskTimeout)
	defer cancel()
	b.reservation.ask()
	defer b.reservation.answered()
	answer, err := b.to.Ask(timed, method, b.shown(method, b.part.Naming().AskParams(method, fitted)))
	var refusal *wire.Error
	switch {
	case err == nil:
		return answer, outcomeOfAnswer(method, answer), nil
	case errors.As(err, &refusal):
		return nil, askError, refusal
	case errors.Is(err, call.ErrLapsed), ctx.Err() == nil && timed.Err() != nil:
		answer, refusal := bridge.Unanswered(method)
		return answer, askLapsed, asError(refusal)
	default:
		return nil, askEnded, err
	}
}

// OutsideBackChannel returns a back channel for what an upstream sends to a client outside of calls,
// in the session with this name, by way of to. It is nil when the client knows no such
// upstream.
func (r *Router) OutsideBackChannel(upstream, session string, who *call.Principal, client *call.Client, to call.BackChannel) call.BackChannel {
	routes := r.Routes()
	part := routes.view(who, client).Part(upstream)
	if part == nil {
		return nil
	}
	return &backChannel{asker: asker{r, routes, part, session, client}, to: to, principal: who}
}

// ElicitationCompleted takes an upstream's notification that a URL elicitation has been completed, in
// the session with this name. It returns the key of the client that was asked and the
// params under the client's own id, and false when no client was.
func (r *Router) ElicitationCompleted(upstream, session string, params wire.Raw) (client string, own wire.Raw, ok bool) {
	e := wire.NewEdit(params)
	id := e.Root().Get("elicitationId")
	client, public, ok := r.elicitations.Complete(elicitationScope(upstream, session), id.Str())
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
	askLapsed     = "lapsed"     // the client did not answer in time, or before the gateway ended
	askEnded      = "ended"      // the call ended, or the upstream took the question back
	askRelayed    = "relayed"    // the client answers in a request of its own
	askRefused    = "refused"    // the gateway cannot tell which client it is for
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

// countAsk counts one question. The label kind takes a fixed set of values.
func (m *Metrics) countAsk(method, outcome string) {
	m.asks.WithLabelValues(askKind(method), outcome).Inc()
}

func askKind(method string) string {
	if ask := wire.MethodOf(method); ask.Kind == wire.KindAsk {
		return ask.Capability
	}
	return "other"
}

// unansweredAsks collects the questions of an upstream during one call that were not answered, for the
// log and the audit: the call may be ok nevertheless. Its methods may be called concurrently, and on nil.
type unansweredAsks struct {
	mu   sync.Mutex
	list []string // each once, as the labels kind and outcome of the metric, such as "elicitation lapsed"
}

func (u *unansweredAsks) add(method, outcome string) {
	if u == nil || outcome == askAnswered {
		return
	}
	ask := askKind(method) + " " + outcome
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.list, ask) {
		u.list = append(u.list, ask)
	}
}

func (u *unansweredAsks) get() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.list
}

// AskRefused counts a question of an upstream that was put to no client, because the gateway
// cannot tell which client it is for.
func (m *Metrics) AskRefused(method string) { m.countAsk(method, askRefused) }

// countConfirmation counts one question of the gateway whether a call may be made.
func (m *Metrics) countConfirmation(outcome string) {
	m.asks.WithLabelValues("confirmation", outcome).Inc()
}
