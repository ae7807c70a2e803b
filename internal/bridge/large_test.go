package bridge

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// many returns n elements made by f, separated by commas.
func many(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f(i))
	}
	return b.String()
}

// Clients and upstreams choose the size and depth of messages. The bridge reads each message
// once: with quadratic cost this test would take minutes.
func TestLargeMessagesTakeLinearTime(t *testing.T) {
	const n = 50_000
	blocks := wire.Raw(`{"messages":[{"role":"user","content":[` + many(n, func(i int) string { return fmt.Sprintf(`{"type":"text","text":"%d"}`, i) }) + `]}]}`)
	fitted, ok := AdaptQuestion(&call.Client{Revision: wire.Rev20250618}, wire.MethodSample, blocks)
	got := 0
	for range wire.ValueOf(fitted).Get("messages").Elements() {
		got++
	}
	if !ok || got != n {
		t.Errorf("%d messages, %v; want %d", got, ok, n)
	}

	asked := make(map[string]bool)
	questions := wire.Raw(`{` + many(n, func(i int) string { return fmt.Sprintf(`"%d":{"method":"roots/list"}`, i) }) + `}`)
	if fresh := unasked(wire.ValueOf(questions), asked); string(fresh) != string(questions) || len(asked) != n {
		t.Errorf("%d questions in %d bytes, want %d in %d", len(asked), len(fresh), n, len(questions))
	}

	const depth = 5000
	nested := func(last string) Binding {
		inner := many(n, func(int) string { return `{"a":[1]}` }) + last
		return BindingOf(&call.Call{Method: wire.MethodToolsCall, Principal: call.Anonymous,
			Params: wire.Raw(`{"name":"a","arguments":{"a":` + strings.Repeat("[", depth) + inner + strings.Repeat("]", depth) + `}}`)})
	}
	if nested(",1") != nested(", 1.0") || nested(",1") == nested(",2") {
		t.Error("the binding ignores a difference in deep arguments")
	}
}
