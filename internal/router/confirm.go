package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// consentKey is the key of the gateway's own question in inputRequests.
const consentKey = "mcpgateway-confirm"

// errUsed is for a state that was good once.
var errUsed = wire.Errorf(wire.CodeInvalidParams,
	"invalid requestState: it was already used; send the request again without it")

// confirm asks the client's user whether the call may be made. Consent is that
// they accept, whatever else the answer holds. asked is what the client gets
// instead of an answer to its call: the question, or why the call was not made; it
// is nil when the call may be made. Nobody is asked about a call that a limit
// would refuse.
func (j *journey) confirm(ctx context.Context) (asked *call.Result, err error) {
	client := j.c.Client
	if err := j.r.room(j.c, j.target, &j.decision); err != nil {
		return nil, err
	}
	params, ok := consentQuestion(j.space.Upstream(), j.target, j.c.Params)
	if !ok {
		return j.unconfirmed(askUnshown)
	}
	fitted, ok := bridge.Fit(client, wire.MethodElicit, params)
	if !ok || !bridge.Declared(client, wire.MethodElicit, params) {
		return j.unconfirmed(askUndeclared)
	}
	if j.c.TakesRounds {
		j.r.metrics.confirmed(askRelayed)
		request := wire.SetMember(wire.Raw(`{"method":"`+wire.MethodElicit+`"}`), "params", fitted)
		raw := wire.SetMember(wire.Raw(`{"resultType":"input_required"}`), "inputRequests", wire.SetMember(wire.Raw(`{}`), consentKey, request))
		state := j.r.sealer.Seal(bridge.State{
			Kind: bridge.Consent, Holder: j.space.Upstream(), Ticket: j.r.tickets.Ticket(), Expires: time.Now().Add(j.r.terms().AskTimeout),
		}, bridge.BindingOf(j.c))
		return &call.Result{Raw: wire.SetMember(raw, "requestState", wire.String(state))}, nil
	}
	timed, cancel := context.WithTimeout(ctx, j.r.terms().AskTimeout)
	defer cancel()
	answer, err := j.c.Back.Ask(timed, wire.MethodElicit, fitted)
	var refusal *wire.Error
	switch {
	case err == nil:
		if asked, err = j.answered(wire.ValueOf(answer)); asked != nil || err != nil {
			return asked, err
		}
		return nil, j.stillPermitted()
	case errors.As(err, &refusal):
		return j.unconfirmed(askError)
	case ctx.Err() == nil && timed.Err() != nil:
		return j.unconfirmed(askLapsed)
	default:
		j.r.metrics.confirmed(askEnded)
		return nil, err
	}
}

// stillPermitted asks policy again once the user has answered, as it is asked about the
// retry of a client that takes rounds: a question may be open for long. The error is
// that of a call which begins now.
func (j *journey) stillPermitted() error {
	if j.r.Routes() == j.routes {
		return nil
	}
	if fault := j.r.Permit(j.c); fault != nil {
		return fault
	}
	return nil
}

// answered takes the answer of the user.
func (j *journey) answered(answer wire.Value) (*call.Result, error) {
	outcome := outcomeOfAnswer(wire.MethodElicit, answer.Raw())
	if outcome != askAnswered {
		return j.unconfirmed(outcome)
	}
	j.r.metrics.confirmed(outcome)
	return nil, j.auditConsent(outcome)
}

// auditConsent records what became of the question. The error is errUnaudited.
func (j *journey) auditConsent(outcome string) error {
	if j.r.audit == nil {
		return nil
	}
	return j.r.audit.consent(j.c, j.target.Public, outcome)
}

// unconfirmed says why the call was not made: to the model, in the result of a
// tool; prompts and resources have no such results.
func (j *journey) unconfirmed(outcome string) (*call.Result, error) {
	j.r.metrics.confirmed(outcome)
	if err := j.auditConsent(outcome); err != nil {
		return nil, err
	}
	why := map[string]string{
		askUndeclared: "the user has to confirm it, and this client cannot ask them: it does not support elicitation",
		askUnshown:    "the user has to confirm it, and there is more to it than a question can show: use fewer arguments, or shorter names",
		askError:      "the user has to confirm it, and the client answered the question with an error",
		askLapsed:     "the user was asked to confirm it and did not answer in time",
		askDeclined:   "the user declined it",
		askCancelled:  "the user was asked to confirm it and did not answer",
	}[outcome]
	text := fmt.Sprintf("The %s %s was not used: %s.", j.target.Kind, clip(j.target.Public), why)
	if j.c.Method != wire.MethodToolsCall {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%s", text)
	}
	block := wire.SetMember(wire.Raw(`{"type":"text"}`), "text", wire.String(text))
	raw := append(append(wire.Raw(`{"content":[`), block...), `],"isError":true}`...)
	return &call.Result{Raw: raw}, nil
}

// redeem takes the state that makes the call a confirmed one: a question of ours
// with its answer, or a later round of a call that was confirmed. It is good for
// one use, whatever the answer is: else one could be exchanged for another. Where a
// limit is reached it stays good; only calls that come in the same moment can take
// the room from each other after that.
func (j *journey) redeem(ctx context.Context, st bridge.State) (asked *call.Result, err error) {
	var answer wire.Value
	if st.Kind == bridge.Consent {
		answer = wire.ValueOf(j.c.Params).Get("inputResponses", consentKey)
		if !answer.Exists() {
			return j.confirm(ctx)
		}
		if fault := bridge.CheckAnswer(wire.MethodElicit, answer); fault != nil {
			return nil, wire.Errorf(fault.Code, "invalid params: inputResponses.%s: %s", consentKey, fault.Message)
		}
	}
	if st.Kind != bridge.Consent || outcomeOfAnswer(wire.MethodElicit, answer.Raw()) == askAnswered {
		if err := j.r.room(j.c, j.target, &j.decision); err != nil {
			return nil, err
		}
	}
	fresh, err := j.r.tickets.Spend(ctx, st.Ticket, st.Expires)
	switch {
	case err != nil:
		j.refuseState(err)
		return nil, wire.Errorf(wire.CodeInternal, "whether the consent was used before cannot be told; try again later")
	case !fresh:
		j.refuseState(errors.New("the consent was already used"))
		return nil, errUsed
	}
	j.consented = true
	if st.Kind == bridge.Consent {
		return j.answered(answer)
	}
	return nil, j.auditConsent("carried") // from the round before
}
