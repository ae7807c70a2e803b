package script

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"mcpgateway/internal/wire"
)

// Host has the functions outside the interpreter that a script may use. The function parallel
// calls its methods concurrently. They return when their context ends.
type Host interface {
	// Call calls a tool with arguments, a JSON object, and returns its result object. The script
	// gets an error, and may continue after it.
	Call(ctx context.Context, tool string, arguments wire.Raw) (wire.Raw, error)
	// Search returns an array of tools for the arguments of search, an object.
	Search(ctx context.Context, arguments wire.Raw) (wire.Raw, error)
	// Describe returns the definitions of tools. The error names a tool that is unknown.
	Describe(ctx context.Context, names []string) ([]wire.Raw, error)
}

// Limits bound one run. All are positive.
type Limits struct {
	Steps    int           // of the interpreter
	Calls    int           // of the host, searches included
	Parallel int           // calls at the same time
	Time     time.Duration // from the beginning, without the time of pauses
	Output   int           // bytes that are printed, and bytes of the result
}

// maxCompute is how long a run computes, apart from its calls.
const maxCompute = 10 * time.Second

// Options configure a run.
type Options struct {
	Host   Host
	Limits Limits
	Clock  Clock
	// Reserve takes memory that all runs share before a run uses it, in steps of 1 MiB. The caller
	// releases it after the run. The script gets its error. nil means that there is no common
	// bound.
	Reserve func(n int64) error
	// Turns has room for as many elements as runs may compute at the same time. Runs take turns of
	// a few milliseconds. nil means that there is no common bound.
	Turns chan struct{}
}

// turnSteps is how many steps a turn has.
const turnSteps = 20_000

// Run runs one program once.
type Run struct {
	opts   Options
	limits Limits
	thread *starlark.Thread
	total  *stopwatch // of the limit of time
	active *stopwatch // of maxCompute

	memory   int64 // that the run may still use
	reserved int64 // of that, what Reserve has granted
	longest  int64 // result of a call
	calls    int
	output   []byte
	ctx      context.Context
	end      context.CancelCauseFunc
	stopped  sync.Once
	hasTurn  bool
}

// Result is the printed output and the returned value of a script.
type Result struct {
	Output string
	// Value is the JSON of the value that was returned, nil for none and None. If Text is set, it
	// is a JSON string.
	Value wire.Raw
	Text  bool
}

// NewRun prepares a run.
func NewRun(opts Options) *Run {
	r := &Run{opts: opts, limits: opts.Limits, memory: MaxMemory}
	r.thread = &starlark.Thread{Name: "script"}
	r.total = newStopwatch(opts.Clock, r.limits.Time, func() {
		r.cancel(fmt.Errorf("the script took longer than %s", r.limits.Time))
	})
	r.active = newStopwatch(opts.Clock, maxCompute, func() {
		r.cancel(fmt.Errorf("the script computed for longer than %s, apart from its calls", maxCompute))
	})
	return r
}

// Pause stops the time of the run while a person is asked. Each Pause needs a Resume. It may
// be called concurrently, and before and after Do.
func (r *Run) Pause() { r.total.pause() }

// Resume ends a Pause.
func (r *Run) Resume() { r.total.resume() }

// cancel ends the run and its calls.
func (r *Run) cancel(cause error) {
	r.stopped.Do(func() {
		r.end(cause)
		r.thread.Cancel(cause.Error())
	})
}

// Do runs a program of Compile. The error is a *Failure of the script, or the cause of ctx if
// that ended.
func (r *Run) Do(ctx context.Context, p *Program) (Result, error) {
	v, err := r.do(ctx, p, func(globals starlark.StringDict) (starlark.Value, error) {
		return starlark.Call(r.thread, globals[scriptFunction], nil, nil)
	})
	if err != nil {
		return Result{}, err
	}
	return v, nil
}

// do initializes a program, calls run with its globals, and returns the result.
func (r *Run) do(ctx context.Context, p *Program, run func(starlark.StringDict) (starlark.Value, error)) (result Result, err error) {
	r.ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	stop := context.AfterFunc(ctx, func() { r.cancel(context.Cause(ctx)) })
	defer stop()
	defer func() {
		if caught := recover(); caught != nil { // a fault of the interpreter ends this run alone
			result, err = Result{}, &Failure{Message: "the interpreter failed", Output: r.printed()}
		}
	}()
	r.thread.OnMaxSteps = func(*starlark.Thread) { r.nextTurn() }
	r.total.resume()
	defer r.total.pause()
	r.compute()
	defer r.wait()
	r.setTurn()

	globals, err := p.compiled.Init(r.thread, r.predeclared())
	var v starlark.Value
	if err == nil {
		v, err = run(globals)
	}
	if err == nil {
		result, err = r.result(v)
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if err == nil {
		return result, nil
	}
	f := p.runFailure(err)
	if cause := context.Cause(r.ctx); cause != nil {
		f.Message, f.Hint = cause.Error(), ""
	}
	f.Output = r.printed()
	return Result{}, f
}

// compute begins a turn after a time in which the run did not compute.
func (r *Run) compute() {
	if r.opts.Turns != nil {
		select {
		case r.opts.Turns <- struct{}{}:
			r.hasTurn = true
		case <-r.ctx.Done(): // the interpreter ends at its next step
		}
	}
	r.active.resume()
}

// wait ends a turn.
func (r *Run) wait() {
	r.active.pause()
	if r.hasTurn {
		r.hasTurn = false
		<-r.opts.Turns
	}
}

// setTurn sets the number of steps after which the turn of others comes.
func (r *Run) setTurn() {
	r.thread.SetMaxExecutionSteps(min(r.thread.Steps+turnSteps, uint64(r.limits.Steps)))
}

// nextTurn ends a run that has taken too many steps. Others continue after those who wait.
func (r *Run) nextTurn() {
	if r.thread.Steps >= uint64(r.limits.Steps) {
		r.cancel(r.errSteps())
		return
	}
	r.wait()
	r.compute()
	r.setTurn()
}

// printed returns what was printed so far.
func (r *Run) printed() string { return string(r.output) }

// result makes the result of a run that returned v.
func (r *Run) result(v starlark.Value) (Result, error) {
	result := Result{Output: r.printed()}
	if v == starlark.None {
		return result, nil
	}
	_, result.Text = v.(starlark.String)
	value, err := r.encode(nil, v, r.limits.Output)
	if errors.Is(err, errTooLong) {
		return Result{}, fmt.Errorf("the script returned more than %d bytes. Return less: a part, a count or a summary. The value begins with %s", r.limits.Output, clip(string(value), 500))
	}
	if err != nil {
		return Result{}, fmt.Errorf("the script returned a value that cannot be shown: %w", err)
	}
	result.Value = value
	return result, nil
}
