package frontend

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// script is a handler whose tools do what their names say. It keeps a record of
// what it saw.
type script struct {
	mu      sync.Mutex
	seen    strings.Builder
	waiting map[string]chan struct{} // calls of the tool wait, by their argument "for"
	kept    call.BackChannel
}

func newScript() *script { return &script{waiting: make(map[string]chan struct{})} }

// record notes one line.
func (s *script) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.seen, format+"\n", args...)
}

// take returns what was noted since it was last asked.
func (s *script) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.seen.Reset()
	return s.seen.String()
}

// gate returns what calls of wait with this argument wait for.
func (s *script) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[name] == nil {
		s.waiting[name] = make(chan struct{})
	}
	return s.waiting[name]
}

func (s *script) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	params := wire.ValueOf(c.Params)
	s.record("%s %s", c.Method, c.Params)
	s.record("  by %s, %s, capabilities %s, info %s, log level %q, rounds %t",
		c.Principal.Subject, c.Client.Revision, c.Client.Capabilities, c.Client.Info, c.LogLevel, c.TakesRounds)
	switch c.Method {
	case wire.MethodDiscover:
		return own(`{"capabilities":{"tools":{"listChanged":true}},"instructions":"Be kind."}`)
	case wire.MethodToolsList:
		return own(`{"tools":[]}`)
	case wire.MethodResourcesRead:
		if params.Get("uri").IsString("x:rounds") {
			return own(`{"resultType":"input_required","requestState":"s"}`)
		}
		return call.Result{}, wire.Errorf(wire.CodeResourceNotFound, "no such resource").WithData(wire.Raw(`{"uri":"x:y"}`))
	case wire.MethodToolsCall:
		return s.tool(ctx, c, params.Get("name").Str(), params.Get("arguments"))
	default:
		return call.Result{}, wire.Errorf(wire.CodeMethodNotFound, "no method %s", c.Method)
	}
}

func own(result string) (call.Result, error) { return call.Result{Raw: wire.Raw(result)}, nil }

func (s *script) tool(ctx context.Context, c *call.Call, name string, args wire.Value) (call.Result, error) {
	switch name {
	case "echo":
		return own(fmt.Sprintf(`{"content":[],"echo":%s}`, args.Raw()))
	case "notify": // each element of messages, then the result
		for m := range args.Get("messages").Elements() {
			c.Back.Notify(m.Get("method").Str(), m.Get("params").Raw())
		}
		return own(`{"content":[]}`)
	case "progress":
		c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"t","progress":1}`))
		return own(`{"content":[]}`)
	case "log":
		for _, level := range []string{"debug", "warning", "error"} {
			c.Back.Notify(wire.NoteMessage, wire.Raw(`{"level":"`+level+`","data":1}`))
		}
		return own(`{"content":[]}`)
	case "ask":
		if args.Get("detached").Bool() { // as a connector does whose asks outlive calls
			ctx = context.WithoutCancel(ctx)
		}
		res, err := c.Back.Ask(ctx, args.Get("method").Str(), args.Get("params").Raw())
		s.record("  answered %s, %v", res, err)
		if err != nil {
			return call.Result{}, err
		}
		return own(fmt.Sprintf(`{"content":[],"answer":%s}`, res))
	case "wait":
		select {
		case <-s.gate(args.Get("for").Str()):
			return own(`{"content":[]}`)
		case <-ctx.Done():
			s.record("  ended: %v", context.Cause(ctx))
			return call.Result{}, ctx.Err()
		}
	case "fail":
		if args.Get("late").Bool() {
			c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"t","progress":1}`))
		}
		code, _ := args.Get("code").Int()
		fault := &wire.Error{Code: code, Message: "failed", Data: args.Get("data").Raw()}
		if args.Get("upstream").Bool() { // it is an upstream that says so
			fault.Raw = fault.Append(nil)
		}
		return call.Result{}, fault
	case "panic":
		panic("the handler is broken")
	case "keep": // the back channel for the tool late
		s.kept = c.Back
		return own(`{"content":[]}`)
	case "late":
		s.kept.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"late","progress":1}`))
		return own(`{"content":[]}`)
	case "modern": // a result of a modern upstream
		return call.Result{
			Raw:      wire.Raw(`{ "ttlMs":5,"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"}` + metaTail(args) + `},"cacheScope":"public" }`),
			Revision: wire.LatestModern,
			Extra:    `"odd":1e400`,
		}, nil
	case "rounds":
		return own(`{"resultType":"input_required","requestState":"s"}`)
	default:
		return call.Result{}, wire.Errorf(wire.CodeInvalidParams, "no tool %s", name)
	}
}

func metaTail(args wire.Value) string {
	if args.Get("more").Bool() {
		return `,"more":1`
	}
	return ""
}
