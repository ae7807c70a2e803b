package router

import (
	"context"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// rewrite makes the params that the upstream sees: native names, and its own
// requestState in place of the sealed one.
func (f *forwarding) rewrite(context.Context) (bool, error) {
	params := f.ref.With(f.target.Native)
	switch {
	case !f.method.Rounds:
	case !f.call.TakesRounds:
		params = f.withoutRounds(params)
	case f.state != nil:
		params = f.resumedParams(params)
	}
	f.down = f.call.With(params)
	return false, nil
}

// rewriteResult puts public names and ids in the place of native ones.
func (f *forwarding) rewriteResult(result wire.Raw) (wire.Raw, error) {
	if f.task != nil {
		return f.rewriteTask(result)
	}
	if f.method.Kind == wire.KindList {
		result = f.adopt(result)
	}
	return f.space().Result(f.call.Method, f.result.Long.ValueOf(result), f.target.Asked()), nil
}

// rewriteTask puts public names and ids in the place of native ones in what an upstream
// says of a task, and labels the questions in it.
func (f *forwarding) rewriteTask(message wire.Raw) (wire.Raw, error) {
	others := f.router.taskIDs(f.upstreamName(), f.session(), f.call.Principal)
	message = f.space().Task(message, func(native string) string {
		if native == f.task.ref.Native {
			return f.task.id
		}
		return others(native)
	})
	e := wire.NewEdit(message)
	uncounted := func(_, _ string) {} // the client looks at the same questions again and again
	for m := range e.Root().Members() {
		if !m.Is("inputRequests") {
			continue
		}
		if refusal := f.back.showQuestions(e, m.Value, uncounted); refusal != nil {
			return nil, refusal
		}
	}
	return e.Bytes(), nil
}

// rewriteError puts public names in the place of native ones.
func (f *forwarding) rewriteError(e *wire.Error) *wire.Error {
	if f.task != nil {
		return f.space().Error(f.back.shownURLs(e), namespace.Asked{})
	}
	return f.space().Error(e, f.target.Asked())
}

// withoutRounds returns the params of a client that takes no rounds without the members
// of rounds, which mean nothing in the client's revision. A modern upstream would take them
// for a state, which the gateway never sealed, and for answers to questions that it never asked.
func (f *forwarding) withoutRounds(params wire.Raw) wire.Raw {
	root := wire.ValueOf(params)
	if f.target.Part.Revision().Era() == wire.EraLegacy || !root.Get("requestState").Exists() && !root.Get("inputResponses").Exists() {
		return params
	}
	return bridge.Retry(params, nil, nil)
}

// resumedParams returns the params of a later round: with the upstream's own
// requestState, or without any if the state is the gateway's.
func (f *forwarding) resumedParams(params wire.Raw) wire.Raw {
	e := wire.NewEdit(params)
	switch f.state.Kind {
	case bridge.UpstreamState:
		e.ReplaceString(e.Root().Get("requestState"), f.state.Text)
	case bridge.NoUpstreamState:
		e.Remove(e.Root(), "requestState")
	default:
		return bridge.Retry(params, nil, nil)
	}
	return e.Bytes()
}
