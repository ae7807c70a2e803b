package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/consent"
	"mcpgateway/internal/wire"
)

// consentKey is the key of the gateway's own question in inputRequests.
const consentKey = "mcpgateway-confirm"

// errUsed is for a state that was good once.
var errUsed = wire.Errorf(wire.CodeInvalidParams,
	"invalid requestState: it was already used; send the request again without it")

// errUncertain is for a state that can be used later, if it was not used before.
var errUncertain = wire.Errorf(wire.CodeInternal, "the gateway cannot find out whether the consent was used before; try again later").
	WithData(wire.Raw(`{"reason":"the gateway cannot find out whether the consent was used before","retryable":true}`))

// confirm has the client's user confirm the call if a rule requires it. A later round
// of a call that was confirmed carries the consent on, and is not asked about again.
func (f *forwarding) confirm(ctx context.Context) (bool, error) {
	if f.state != nil && f.state.Token != "" {
		if done, err := f.redeem(ctx); done || err != nil {
			return done, err
		}
	}
	switch {
	case f.consented || !f.decision.NeedsConfirmation() || f.method.Kind != wire.KindCall:
		return false, nil
	case f.state != nil:
		return false, f.refuseState(errors.New("the round began before a consent was needed"), errState)
	}
	return f.ask(ctx)
}

// ask asks the client's user whether the call may be made. The user consents by accepting;
// other members of the answer are ignored. It reports done if the client gets something
// other than the answer to its call: the question, or the reason why the call was not made.
// A call that a limit would refuse is refused before the user is asked.
func (f *forwarding) ask(ctx context.Context) (bool, error) {
	client := f.call.Client
	if err := f.checkLimits(); err != nil {
		return false, err
	}
	params, ok := consent.Question(f.upstreamName(), f.target.Kind, f.target.Public, f.call.Params)
	if !ok {
		return f.unconfirmed(askUnshown)
	}
	fitted, ok := bridge.AdaptQuestion(client, wire.MethodElicit, params)
	if !ok || !bridge.Declared(client, wire.MethodElicit, params) {
		return f.unconfirmed(askUndeclared)
	}
	terms := f.routes.bridgeSettings()
	if f.call.TakesRounds {
		f.router.metrics.countConfirmation(askRelayed)
		request := wire.SetMember(wire.Raw(`{"method":"`+wire.MethodElicit+`"}`), "params", fitted)
		raw := wire.SetMember(wire.Raw(`{"resultType":"input_required"}`), "inputRequests", wire.SetMember(wire.Raw(`{}`), consentKey, request))
		state := f.router.sealer.Seal(bridge.State{
			Kind: bridge.Consent, Recipient: f.upstreamName(), Token: f.router.tokens.New(ctx), Expires: time.Now().Add(terms.AskTimeout), Trace: f.call.Trace.Traceparent(),
		}, bridge.BindingOf(f.call))
		f.result.Raw = wire.SetMember(raw, "requestState", wire.String(state))
		return true, nil
	}
	timed, cancel := context.WithTimeout(ctx, terms.AskTimeout)
	defer cancel()
	timer := f.call.Trace.Start(timed, call.StageConfirm, call.SpanStart{Method: wire.MethodElicit})
	answer, err := f.call.Back.Ask(timed, wire.MethodElicit, fitted)
	timer.End(err)
	var refusal *wire.Error
	switch {
	case err == nil:
		if done, err := f.answered(wire.ValueOf(answer)); done || err != nil {
			return done, err
		}
		return false, f.stillPermitted()
	case errors.As(err, &refusal):
		return f.unconfirmed(askError)
	case errors.Is(err, call.ErrLapsed), ctx.Err() == nil && timed.Err() != nil:
		return f.unconfirmed(askLapsed)
	default:
		f.router.metrics.countConfirmation(askEnded)
		return false, err
	}
}

// stillPermitted asks policy again once the user has answered, because a question may be
// open for long: the retry of a client that takes rounds is judged again, too. The error is
// that of a call which begins now.
func (f *forwarding) stillPermitted() error {
	if f.router.Routes() == f.routes {
		return nil
	}
	if refusal := f.router.permit(f.call, &f.log); refusal != nil {
		return refusal
	}
	return nil
}

// answered takes the answer of the user.
func (f *forwarding) answered(answer wire.Value) (bool, error) {
	outcome := outcomeOfAnswer(wire.MethodElicit, answer.Raw())
	if outcome != askAnswered {
		return f.unconfirmed(outcome)
	}
	f.router.metrics.countConfirmation(outcome)
	return false, f.auditConsent(outcome)
}

// auditConsent records the outcome of the question. The error is errUnaudited.
func (f *forwarding) auditConsent(outcome string) error {
	if f.router.audit == nil {
		return nil
	}
	return f.router.audit.consent(f.call, f.target.OrdinaryName(), outcome)
}

// unconfirmed says why the call was not made: to the model, in the result of a tool;
// prompts and resources have no such results.
func (f *forwarding) unconfirmed(outcome string) (bool, error) {
	f.router.metrics.countConfirmation(outcome)
	if err := f.auditConsent(outcome); err != nil {
		return false, err
	}
	why := map[string]string{
		askUndeclared: "the user has to confirm it, and this client cannot ask them: it does not support elicitation",
		askUnshown:    "the user has to confirm it, and there is more to it than a question can show: use fewer arguments, or shorter names",
		askError:      "the user has to confirm it, and the client answered the question with an error",
		askLapsed:     "the user was asked to confirm it and did not answer in time",
		askDeclined:   "the user declined it",
		askCancelled:  "the user was asked to confirm it and did not answer",
	}[outcome]
	f.log.decided, f.log.reason = outcomeUnconfirmed, why
	text := fmt.Sprintf("The %s %s was not used: %s.", f.target.Kind, clip(f.target.Public), why)
	if f.method.Shape != wire.ShapeToolResult {
		return false, wire.Errorf(wire.CodeInvalidParams, "%s", text)
	}
	block := wire.SetMember(wire.Raw(`{"type":"text"}`), "text", wire.String(text))
	f.result.Raw = append(append(wire.Raw(`{"content":[`), block...), `],"isError":true}`...)
	return true, nil
}

// redeem takes the state that makes the call a confirmed one: the gateway's question with
// its answer, or a later round of a call that was confirmed. The state can be used once,
// whatever the answer is, so that one answer cannot be exchanged for another. If a limit
// is reached, the state stays usable: limits are checked before the state is used, so only a
// concurrent call can exhaust the limit in between.
func (f *forwarding) redeem(ctx context.Context) (bool, error) {
	st := f.state
	var answer wire.Value
	if st.Kind == bridge.Consent {
		answer = wire.ValueOf(f.call.Params).Get("inputResponses", consentKey)
		if !answer.Exists() {
			return f.ask(ctx)
		}
		if rpcErr := bridge.CheckAnswer(wire.MethodElicit, answer); rpcErr != nil {
			return false, wire.Errorf(rpcErr.Code, "invalid params: inputResponses.%s: %s", consentKey, rpcErr.Message)
		}
	}
	if st.Kind != bridge.Consent || outcomeOfAnswer(wire.MethodElicit, answer.Raw()) == askAnswered {
		if err := f.checkLimits(); err != nil {
			return false, err
		}
	}
	fresh, err := f.router.tokens.Redeem(ctx, st.Token, st.Expires)
	switch {
	case err != nil:
		return false, f.refuseState(err, errUncertain)
	case !fresh:
		return false, f.refuseState(errors.New("the consent was already used"), errUsed)
	}
	f.consented = true
	if st.Kind == bridge.Consent {
		return f.answered(answer)
	}
	return false, f.auditConsent("carried") // from the round before
}
