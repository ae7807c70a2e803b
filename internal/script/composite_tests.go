package script

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"mcpgateway/internal/wire"
)

// compositeTest is one element of the list tests of a composite, a dict:
//
//	{"name": "…",           optional
//	 "arguments": {…},
//	 "calls": {"tool": [value, …]},   the values of its calls, in their order
//	 "result": …,           the result that is expected; or
//	 "error": "…"}          a part of the failure that is expected
//
// A value {"$error": "…"} is an error of the tool.
type compositeTest struct {
	name      string
	arguments wire.Raw
	calls     map[string][]wire.Raw // results by tool
	result    wire.Raw              // nil if it is not compared
	failure   string
}

// readTests reads the tests of a file.
func readTests(r *Run, v starlark.Value) ([]compositeTest, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := r.encode(nil, v, loadLimits.Output)
	if err != nil {
		return nil, fmt.Errorf("tests: %w", err)
	}
	var tests []compositeTest
	for e := range wire.ValueOf(wire.Raw(raw)).Elements() {
		t := compositeTest{name: fmt.Sprintf("tests[%d]", len(tests)), calls: map[string][]wire.Raw{}}
		for m := range e.Members() {
			switch name := m.Key.Str(); name {
			case "name":
				t.name = m.Value.Str()
			case "arguments":
				t.arguments = m.Value.Raw()
			case "calls":
				for c := range m.Value.Members() {
					for answer := range c.Value.Elements() {
						t.calls[c.Key.Str()] = append(t.calls[c.Key.Str()], resultOf(answer))
					}
				}
			case "result":
				t.result = m.Value.Raw()
			case "error":
				t.failure = m.Value.Str()
			default:
				return nil, fmt.Errorf("tests[%d] has %q. A test has name, arguments, calls, result and error", len(tests), clip(name, 60))
			}
		}
		if t.arguments == nil {
			return nil, fmt.Errorf("tests[%d] needs arguments, a dict", len(tests))
		}
		tests = append(tests, t)
	}
	return tests, nil
}

// resultOf returns the result of a tool whose value is v.
func resultOf(v wire.Value) wire.Raw {
	if problem, ok := v.Get("$error").Text(); ok {
		return wire.SetMember(textContent(problem), "isError", wire.Raw("true"))
	}
	if text, ok := v.Text(); ok {
		return textContent(text)
	}
	return wire.SetMember(wire.Raw(`{"content":[]}`), "structuredContent", v.Raw())
}

func textContent(s string) wire.Raw {
	return append(wire.AppendString(wire.Raw(`{"content":[{"type":"text","text":`), s), `}]}`...)
}

// testHost answers the calls of a test.
type testHost struct {
	noHost
	mu      sync.Mutex
	answers map[string][]wire.Raw
}

// Call implements Host.
func (h *testHost) Call(_ context.Context, tool string, _ wire.Raw) (wire.Raw, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.answers[tool]
	if len(left) == 0 {
		return nil, fmt.Errorf("the test has no more answers for %s", tool)
	}
	h.answers[tool] = left[1:]
	return left[0], nil
}

// Test runs the tests of the file with the answers that they give, and returns how many there are and what failed.
// check returns an error for a value that does not match the schema in a member of the definition.
func (c *Composite) Test(ctx context.Context, limits Limits, clock Clock, check func(member string, value wire.Raw) error) (count int, failed []error) {
	for _, t := range c.tests {
		err := check("inputSchema", t.arguments)
		if err == nil {
			err = c.test(ctx, t, limits, clock, check)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("test %q: %w", clip(t.name, 100), err))
		}
	}
	return len(c.tests), failed
}

func (c *Composite) test(ctx context.Context, t compositeTest, limits Limits, clock Clock, check func(member string, value wire.Raw) error) error {
	answers := make(map[string][]wire.Raw, len(t.calls))
	for tool, list := range t.calls {
		answers[tool] = list
	}
	host := &testHost{answers: answers}
	result, err := c.Do(ctx, NewRun(Options{Host: host, Limits: limits, Clock: clock}), t.arguments)
	switch {
	case t.failure != "" && err == nil:
		return fmt.Errorf("it returned %s, and should fail with %q", clip(string(result.Value), 200), t.failure)
	case t.failure != "" && !strings.Contains(err.Error(), t.failure):
		return fmt.Errorf("it failed with %w, which does not contain %q", err, t.failure)
	case t.failure == "" && err != nil:
		return err
	case t.failure == "" && t.result != nil && !sameJSON(result.Value, t.result):
		return fmt.Errorf("it returned %s, want %s", clip(string(result.Value), 500), clip(string(t.result), 500))
	}
	if err == nil {
		if err := check("outputSchema", result.Value); err != nil {
			return err
		}
	}
	for tool, left := range host.answers {
		if len(left) > 0 {
			return fmt.Errorf("%d answers for %s were not used", len(left), tool)
		}
	}
	return nil
}

// sameJSON reports whether two values are equal. A nil value is null.
func sameJSON(a, b wire.Raw) bool {
	if a == nil {
		a = wire.Raw("null")
	}
	return bytes.Equal(wire.AppendDigest(nil, a), wire.AppendDigest(nil, b))
}
