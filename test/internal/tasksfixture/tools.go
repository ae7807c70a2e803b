package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// tool is a tool of the server.
type tool struct {
	about   string
	support string // execution.taskSupport, a value of 2025-11-25
	rounds  bool   // in the modern form: asks for a name in an input_required result before it becomes a task
	run     func(ctx context.Context, t *task, args json.RawMessage) (object, *fault)
}

// tools are the tools of the conformance suite's tasks scenarios, and steps, which reports its progress.
var tools = map[string]tool{
	"greet": {about: "says hello at once", support: "forbidden", run: func(_ context.Context, _ *task, args json.RawMessage) (object, *fault) {
		return text("Hello, %s!", argument(args, "name", "World")), nil
	}},
	"slow_compute": {about: "sleeps for some seconds", support: "optional", run: func(ctx context.Context, t *task, args json.RawMessage) (object, *fault) {
		if err := sleep(ctx, seconds(args)); err != nil {
			return nil, faultf(-32000, "interrupted")
		}
		return text("computed %s", argument(args, "label", "")), nil
	}},
	"steps": {about: "tells of three steps", support: "required", run: func(ctx context.Context, t *task, args json.RawMessage) (object, *fault) {
		for step := range 3 {
			t.setMessage(fmt.Sprintf("step %d", step+1))
			if err := sleep(ctx, seconds(args)); err != nil {
				return nil, faultf(-32000, "interrupted")
			}
		}
		return text("three steps"), nil
	}},
	"failing_job": {about: "fails as tools fail", support: "required", run: func(ctx context.Context, _ *task, _ json.RawMessage) (object, *fault) {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, faultf(-32000, "interrupted")
		}
		out := text("the job failed")
		out["isError"] = true
		return out, nil
	}},
	"protocol_error_job": {about: "fails as requests fail", support: "required", run: func(context.Context, *task, json.RawMessage) (object, *fault) {
		return nil, &fault{Code: -32603, Message: "the job broke", Data: object{"job": "protocol_error_job"}}
	}},
	"confirm_delete": {about: "asks before it deletes", support: "required", run: func(ctx context.Context, t *task, args json.RawMessage) (object, *fault) {
		answer, err := t.ask(ctx, "confirm", "elicitation/create", elicitation("Delete "+argument(args, "filename", "it")+"?", "confirm", "boolean"))
		if err != nil {
			return nil, faultf(-32000, "interrupted")
		}
		return text("deletion: %s", answer), nil
	}},
	"multi_input": {about: "asks two questions at once", support: "required", run: func(ctx context.Context, t *task, _ json.RawMessage) (object, *fault) {
		var wg sync.WaitGroup
		var answers [2]json.RawMessage
		var errs [2]error
		for i := range answers {
			wg.Go(func() {
				answers[i], errs[i] = t.ask(ctx, fmt.Sprintf("input-%d", i+1), "elicitation/create", elicitation(fmt.Sprintf("Question %d", i+1), "name", "string"))
			})
		}
		wg.Wait()
		if errs[0] != nil || errs[1] != nil {
			return nil, faultf(-32000, "interrupted")
		}
		return text("answers: %s and %s", answers[0], answers[1]), nil
	}},
	"test_tool_with_task": {about: "asks for a name, then works", support: "required", rounds: true, run: func(ctx context.Context, t *task, args json.RawMessage) (object, *fault) {
		name := argument(args, "answered", "")
		if name == "" { // no round has asked
			answer, err := t.ask(ctx, "user_name", "elicitation/create", askName)
			if err != nil {
				return nil, faultf(-32000, "interrupted")
			}
			name = elicited(answer)
		}
		return text("Hello, %s!", name), nil
	}},
}

var askName = elicitation("What is your name?", "name", "string")

// text returns a tool result with one text.
func text(format string, args ...any) object {
	return object{"content": []any{object{"type": "text", "text": fmt.Sprintf(format, args...)}}}
}

func elicitation(message, member, kind string) object {
	return object{"mode": "form", "message": message, "requestedSchema": object{
		"type": "object", "properties": object{member: object{"type": kind}}, "required": []string{member},
	}}
}

// elicited returns the name in an answer to askName.
func elicited(answer json.RawMessage) string {
	var a struct{ Content struct{ Name string } }
	if json.Unmarshal(answer, &a) != nil || a.Content.Name == "" {
		return "nobody"
	}
	return a.Content.Name
}

func argument(args json.RawMessage, name, otherwise string) string {
	var all map[string]any
	if json.Unmarshal(args, &all) != nil {
		return otherwise
	}
	if s, ok := all[name].(string); ok {
		return s
	}
	return otherwise
}

func seconds(args json.RawMessage) time.Duration {
	var a struct{ Seconds float64 }
	if json.Unmarshal(args, &a) != nil {
		return 0
	}
	return time.Duration(a.Seconds * float64(time.Second))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
