package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

const (
	// maxRounds bounds how often one call is sent, maxRequests the questions of one round.
	maxRounds   = 32
	maxRequests = 64
	// A requestState without questions means "not yet". The wait before the next try begins
	// with minRetryWait and doubles up to maxRetryWait.
	minRetryWait = 50 * time.Millisecond
	maxRetryWait = 2 * time.Second
)

// IsInputRequired reports whether a modern upstream's result asks for input. If the member
// occurs twice, one such value is enough, because it is not known which one a client reads.
func IsInputRequired(result wire.Value) bool {
	for m := range result.Members() {
		if m.Is("resultType") && m.Value.IsString("input_required") {
			return true
		}
	}
	return false
}

// Do sends a call to its upstream. The error is a *wire.Error or that of ctx.
type Do func(ctx context.Context, c *call.Call) (call.Result, error)

// AnswerRounds takes a call of a client that takes no rounds from its first result to its last.
// It asks the questions of each round through the call's back channel, all at the same time, and
// sends the call again with the answers and the exact requestState (2026-07-28,
// basic/patterns/mrtr, "Basic Workflow"). The call's params are those of the first round.
//
// An elicitation that fails is answered as cancelled. An error of sampling or roots ends the
// call with that error, because their answers can only be results.
func AnswerRounds(ctx context.Context, c *call.Call, first call.Result, do Do) (call.Result, error) {
	res, wait := first, minRetryWait
	for range maxRounds {
		if !IsInputRequired(res.Value()) {
			return res, nil
		}
		root := wire.ValueOf(res.Raw)
		requests, state := root.Get("inputRequests"), root.Get("requestState")
		var answers wire.Raw
		var err error
		switch {
		case requests.Kind() == '{' && count(requests) > 0:
			wait = minRetryWait
			if answers, err = askAll(ctx, c.Back, requests); err != nil {
				return call.Result{}, err
			}
		case state.Kind() != '"':
			return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream asked for input without saying which")
		default:
			if err := sleep(ctx, wait); err != nil {
				return call.Result{}, err
			}
			wait = min(2*wait, maxRetryWait)
		}
		if res, err = do(ctx, c.With(Retry(c.Params, answers, state.Raw()))); err != nil {
			return call.Result{}, err
		}
	}
	if IsInputRequired(res.Value()) {
		return call.Result{}, wire.Errorf(wire.CodeInternal, "the upstream asked for input more than %d times", maxRounds)
	}
	return res, nil
}

// Retry returns the params of a call with these answers and this state in place of its own. Nil
// means none.
func Retry(params, answers, state wire.Raw) wire.Raw {
	if params == nil {
		params = wire.Raw(`{}`)
	}
	e := wire.NewEdit(params)
	e.Remove(e.Root(), "inputResponses", "requestState")
	out := e.Bytes()
	if answers == nil && state == nil {
		return out
	}
	e = wire.NewEdit(out)
	if answers != nil {
		e.Add(e.Root(), "inputResponses", answers)
	}
	if state != nil {
		e.Add(e.Root(), "requestState", state)
	}
	return e.Bytes()
}

// askAll asks all questions of a round and returns the object of the answers, each under the key
// of its question. The first error cancels the other questions.
func askAll(ctx context.Context, back call.BackChannel, requests wire.Value) (wire.Raw, error) {
	if count(requests) > maxRequests {
		return nil, wire.Errorf(wire.CodeInternal, "the upstream asked more than %d questions at once", maxRequests)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var keys []wire.Raw
	answers := make([]wire.Raw, count(requests))
	var wg sync.WaitGroup
	for m := range requests.Members() {
		i := len(keys)
		keys = append(keys, m.Key.Raw())
		wg.Go(func() {
			answer, err := askOne(ctx, back, m.Value)
			if err != nil {
				cancel(err) // the first cause stays
			}
			answers[i] = answer
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, causeOf(ctx)
	}
	out := wire.Raw{'{'}
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), answers[i]...)
	}
	return append(out, '}'), nil
}

func askOne(ctx context.Context, back call.BackChannel, request wire.Value) (wire.Raw, error) {
	method := request.Get("method").Str()
	if wire.MethodOf(method).Kind != wire.KindAsk {
		return nil, wire.Errorf(wire.CodeInternal, "the upstream asked a question of a kind that is not known: %.64q", method)
	}
	params := request.Get("params").Raw()
	if wire.ValueOf(params).Kind() != '{' {
		params = nil
	}
	answer, err := back.Ask(ctx, method, params)
	var refusal *wire.Error
	if errors.As(err, &refusal) && method == wire.MethodElicit {
		return CancelledElicitation(), nil
	}
	return answer, err
}

// causeOf returns the cause of the end of a context as the error of a call: a *wire.Error or the
// error of the context.
func causeOf(ctx context.Context) error {
	if refusal, ok := errors.AsType[*wire.Error](context.Cause(ctx)); ok {
		return refusal
	}
	return ctx.Err()
}

func count(object wire.Value) int {
	n := 0
	for range object.Members() {
		n++
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
