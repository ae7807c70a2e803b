package frontend

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// scriptHandler is a handler with tools for tests. It records the calls that it gets.
type scriptHandler struct {
	mu      sync.Mutex
	seen    strings.Builder
	waiting map[string]chan struct{} // for the tool wait, by the argument "for"
	kept    call.BackChannel
}

func newScriptHandler() *scriptHandler {
	return &scriptHandler{waiting: make(map[string]chan struct{})}
}

// record adds a line to the record.
func (s *scriptHandler) record(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.seen, format+"\n", args...)
}

// take returns the record since the last take.
func (s *scriptHandler) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.seen.Reset()
	return s.seen.String()
}

// release returns the channel that calls of wait with this argument wait for.
func (s *scriptHandler) release(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[name] == nil {
		s.waiting[name] = make(chan struct{})
	}
	return s.waiting[name]
}

func (s *scriptHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
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

func (s *scriptHandler) tool(ctx context.Context, c *call.Call, name string, args wire.Value) (call.Result, error) {
	switch name {
	case "echo":
		if args.Kind() == 0 { // the call has no arguments
			return own(`{"content":[]}`)
		}
		return own(fmt.Sprintf(`{"content":[],"echo":%s}`, args.Raw()))
	case "notify": // sends each element of messages, then the result
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
		if args.Get("detached").Bool() { // like a connector whose asks outlive the call
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
		case <-s.release(args.Get("for").Str()):
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
		if args.Get("upstream").Bool() { // the error is that of an upstream
			fault.Raw = fault.Append(nil)
		}
		return call.Result{}, fault
	case "panic":
		panic("the handler is broken")
	case "keep": // keeps the back channel for the tool late
		s.kept = c.Back
		return own(`{"content":[]}`)
	case "late":
		s.kept.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"late","progress":1}`))
		return own(`{"content":[]}`)
	case "modern": // returns a result of a modern upstream
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
