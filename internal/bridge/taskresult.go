package bridge

import (
	"context"
	"errors"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// RetryTaskResult returns do for tasks/result of 2025-11-25, which takes as long as the task. If
// the call times out at a silent upstream while the task runs, it is sent again.
func RetryTaskResult(do Do) Do {
	return func(ctx context.Context, c *call.Call) (call.Result, error) {
		for ended := false; ; {
			res, err := do(ctx, c)
			own, ok := errors.AsType[*wire.Error](err)
			if !ok || own.Raw != nil || own.Code != wire.CodeInternal || ended {
				return res, err
			}
			look := *c
			look.Method = wire.MethodTasksGet
			got, lerr := do(ctx, &look)
			if lerr != nil {
				return res, err
			}
			task := ParseTask(got.Raw, wire.EraLegacy)
			if ended = task.Ended(); ended {
				continue
			}
			if err := sleep(ctx, task.Pause()); err != nil {
				return call.Result{}, err
			}
		}
	}
}

// noBackChannel is the back channel of requests that no client waits for.
type noBackChannel struct{}

func (noBackChannel) Notify(string, wire.Raw) {}

func (noBackChannel) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeInternal, "no client waits for this any longer")
}
