package metatool

import (
	"context"
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/content"
	"mcpgateway/internal/results"
	"mcpgateway/internal/script"
	"mcpgateway/internal/search"
	"mcpgateway/internal/wire"
)

// Tools answers calls of own tools. It implements router.OwnTools.
type Tools struct {
	// Results are required if a profile has the items of results.
	Results *Results
	// Scripts returns the limits of scripts, and the tools that files define. It is required if a profile has scripts.
	Scripts func() *Scripts
	// Nearest ranks the tools of an index by how near they are to a query, the nearest first, as
	// by embeddings. It may be nil.
	Nearest func(ctx context.Context, x *search.Index, query string) []int
	// View returns what the caller sees now, for scripts, during which it may change. nil means that
	// it does not change.
	View func(c *call.Call) *catalog.View
	// CompositeFailed is called when a tool that a file defines has failed, to log where. It may be nil.
	CompositeFailed func(c *call.Call, tool string, f *script.Failure)
	memory          memory
	scripts         scripts
}

// New returns Tools that remember nothing yet.
func New() *Tools { return &Tools{scripts: newScripts()} }

// invocation is one call of an own tool.
type invocation struct {
	tools  *Tools
	call   *call.Call
	target catalog.Target
	view   *catalog.View
	inner  func(context.Context, *call.Call) (call.Result, error)
	args   wire.Value // the arguments, an object, or absent
	// composed says that a script runs which the caller does not see.
	composed bool
}

// Call answers a call of an own tool. The errors are a *wire.Error or that of ctx.
func (t *Tools) Call(ctx context.Context, c *call.Call, target catalog.Target, view *catalog.View, inner func(context.Context, *call.Call) (call.Result, error)) (call.Result, error) {
	in := &invocation{tools: t, call: c, target: target, view: view, inner: inner, args: wire.ValueOf(c.Params).Get("arguments")}
	if target.Kind == call.Resource {
		return in.readResource(ctx)
	}
	switch target.Public {
	case SearchTools:
		return in.search(ctx), nil
	case results.ReadTool:
		return in.readResult(ctx)
	case DescribeTools:
		return in.describe(), nil
	case RunScript:
		return in.runScript(ctx)
	case CallTool:
		return in.callTool(ctx, anyEffect)
	}
	for _, by := range callers {
		if by.name == target.Public {
			return in.callTool(ctx, by.effect)
		}
	}
	if c := in.composite(target.Public); c != nil {
		return in.runComposite(ctx, c)
	}
	return call.Result{}, wire.Errorf(wire.CodeInternal, "the gateway has no tool %q", target.Public)
}

// splits reports whether the caller's profile has several tools that call others.
func (in *invocation) splits() bool {
	t, ok := in.view.Resolve(call.Tool, CallReadTool)
	return ok && t.Part.Own()
}

// mistake is the result of a call that a model can correct.
func mistake(format string, args ...any) call.Result {
	return call.Result{Raw: wire.SetMember(textResult(fmt.Sprintf(format, args...)), "isError", wire.Raw("true"))}
}

// textResult returns a result with one block of text.
func textResult(text string) wire.Raw {
	return append(append(wire.Raw(`{"content":[`), content.TextBlock(text)...), ']', '}')
}
