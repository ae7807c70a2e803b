package router

import (
	"context"
	"errors"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// callStages are the stages of a request that names an item, from the client to the upstream.
// Each stage is in the file of its name. The answer of the upstream passes the resultStages.
var callStages = []requestStage{
	{"resolve", (*forwarding).resolve},     // the public name to an item of an upstream
	{"authorize", (*forwarding).authorize}, // by policy
	{"complete", (*forwarding).complete},   // answers completions that no upstream is asked for
	{"validate", (*forwarding).validate},   // the arguments against the schema of the tool
	{"resume", (*forwarding).resume},       // the request state of an earlier round
	{"own", (*forwarding).own},             // answers calls of the gateway's own items
	{"confirm", (*forwarding).confirm},     // by the client's user, if a rule requires it
	{"limit", (*forwarding).limit},         // how many calls a rule allows
	{"rewrite", (*forwarding).rewrite},     // params to native names
	{"send", (*forwarding).send},           // to the upstream, through rounds and tasks to its answer
}

// taskStages are the stages of a request about a task. The answer of the upstream passes the
// resultStages.
var taskStages = []requestStage{
	{"open", (*forwarding).openTask}, // the public id to a task of an upstream
	{"authorize", (*forwarding).authorizeTask},
	{"rewrite", (*forwarding).rewriteTaskRequest},
	{"send", (*forwarding).sendTaskRequest},
}

// watchStages are the stages that a watch of a task passes once, when it begins. Each poll of the
// task passes pollStages, after a check that the watch is still permitted.
var watchStages, pollStages = taskStages[:2], taskStages[2:]

// resultStages are the stages of what an upstream answers, on the way to the client: of
// results and of errors. Results of calls and of tasks pass the same ones.
var resultStages = []resultStage{
	{"mask", (*forwarding).maskEmpty, nil}, // a result with which a server says that a resource is missing
	{"rewrite", (*forwarding).rewriteResult, (*forwarding).rewriteError},
	{"conform", (*forwarding).conform, nil}, // to the specification
	{"sanitize", (*forwarding).sanitize, (*forwarding).sanitizeError},
	{"enrich", (*forwarding).enrich, nil},       // with what SEP-2093 adds
	{"shorten", (*forwarding).shorten, nil},     // to what the profile allows a result of a tool
	{"downlevel", (*forwarding).downlevel, nil}, // to the revision of the client
	{"mask", nil, (*forwarding).maskMissing},
}

// requestStage is one stage of a request. It reports done if f.result answers the
// client, so that no later stage is reached.
type requestStage struct {
	name string
	run  func(f *forwarding, ctx context.Context) (done bool, err error)
}

// resultStage is one stage of what an upstream answered. Either function may be nil.
type resultStage struct {
	name   string
	result func(f *forwarding, result wire.Raw) (wire.Raw, error)
	fail   func(f *forwarding, err *wire.Error) *wire.Error
}

// run takes the request through its stages and the answer of the upstream back. The
// error is a *wire.Error or that of ctx.
func (f *forwarding) run(ctx context.Context, stages []requestStage) (call.Result, error) {
	f.ctx = ctx
	defer func() {
		f.reservation.release()
		f.log.asks = f.asks.get()
	}()
	switch done, err := f.request(ctx, stages); {
	case err != nil && f.sent:
		return call.Result{}, f.fail(err)
	case err != nil:
		return call.Result{}, err
	case done:
		return f.result, nil
	}
	return f.answer()
}

// request takes the request through its stages, up to the one that reports done.
func (f *forwarding) request(ctx context.Context, stages []requestStage) (done bool, err error) {
	for i := range stages {
		if done, err = stages[i].run(f, ctx); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// answer takes a result of the upstream through the result stages.
func (f *forwarding) answer() (call.Result, error) {
	for i := range resultStages {
		if stage := resultStages[i].result; stage != nil {
			raw, err := stage(f, f.result.Raw)
			if err != nil {
				return call.Result{}, err
			}
			f.result.Raw = raw
		}
	}
	return f.result, nil
}

// fail takes an error of the upstream through the result stages.
func (f *forwarding) fail(err error) error {
	rpc, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return err
	}
	for i := range resultStages {
		if stage := resultStages[i].fail; stage != nil {
			rpc = stage(f, rpc)
		}
	}
	return rpc
}
