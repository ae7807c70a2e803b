package metatool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/content"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/script"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// RunScript is the name of the tool that runs scripts.
const RunScript = "run_script"

// Scripts are the limits of scripts, and the tools that files define.
type Scripts struct {
	Limits script.Limits
	// Composites are the tools of each profile by their names. The default profile is "".
	Composites map[string]map[string]*script.Composite
}

// maxScriptMemory bounds the memory of all scripts. One client gets half of it at most.
const maxScriptMemory = 4 * script.MaxMemory

// scripts is the shared state of all runs.
type scripts struct {
	memory *fairshare.Budget
	turns  chan struct{}
}

func newScripts() scripts {
	return scripts{memory: fairshare.New(maxScriptMemory, 0), turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// scriptItems returns the definitions of run_script and of the tools that files define.
func (o *Options) scriptItems() []profile.OwnItem {
	var out []profile.OwnItem
	if l := o.Scripts; l != nil {
		raw := definition(RunScript, "{CALLS}", strconv.Itoa(l.Calls), "{PARALLEL}", strconv.Itoa(l.Parallel), "{TIME}", plainDuration(l.Time),
			"{OUTPUT}", fmt.Sprintf("%d bytes", l.Output), "{STEPS}", strconv.Itoa(l.Steps))
		out = append(out, profile.OwnItem{Kind: call.Tool, Definition: raw, Meta: true, WholeView: true})
	}
	for _, c := range o.Composites {
		out = append(out, profile.OwnItem{Kind: call.Tool, Definition: c.Definition})
	}
	return out
}

// plainDuration returns a duration without its zero parts: 2m in place of 2m0s.
func plainDuration(d time.Duration) string {
	s := d.String()
	if short, ok := strings.CutSuffix(s, "m0s"); ok {
		s = short + "m"
	}
	if short, ok := strings.CutSuffix(s, "h0m"); ok {
		s = short + "h"
	}
	return s
}

// composite returns the tool with this name in the profile of the call.
func (in *invocation) composite(name string) *script.Composite {
	if in.tools.Scripts == nil {
		return nil
	}
	return in.tools.Scripts().Composites[in.call.Principal.Profile][name]
}

// runScript runs the script in the arguments.
func (in *invocation) runScript(ctx context.Context) (call.Result, error) {
	source, ok := in.args.Get("script").Text()
	if !ok || strings.TrimSpace(source) == "" {
		return mistake("%s needs `script`: the text of a script, as in {\"script\": \"call(\\\"tool\\\", {…})\"}.", RunScript), nil
	}
	if others := membersBeside(in.args, "script"); len(others) > 0 {
		return mistake("%s takes `script` only. Write %s into the script.", RunScript, strings.Join(quoted(others, "`"), ", ")), nil
	}
	p, err := script.Compile("script", source)
	if err != nil {
		return failed(err)
	}
	res, err := in.runProgram(ctx, func(ctx context.Context, r *script.Run) (script.Result, error) { return r.Do(ctx, p) })
	if err != nil {
		return failed(err)
	}
	return call.Result{Raw: scriptResult(res)}, nil
}

// runComposite runs a tool that a file defines.
func (in *invocation) runComposite(ctx context.Context, c *script.Composite) (call.Result, error) {
	arguments := in.args.Raw()
	if arguments == nil {
		arguments = wire.Raw(`{}`)
	}
	if refusal := toolschema.RejectArguments(c.Name, in.target.Entry.Input, arguments); refusal != nil {
		return call.Result{Raw: refusal}, nil
	}
	in.composed = true
	res, err := in.runProgram(ctx, func(ctx context.Context, r *script.Run) (script.Result, error) { return c.Do(ctx, r, arguments) })
	if err != nil {
		return in.compositeFailed(c, err)
	}
	raw := scriptResult(res)
	if err := CheckComposite(c, "outputSchema", res.Value); err != nil {
		return mistake("%s: %v", c.Name, err), nil
	}
	if wire.ValueOf(c.Definition).Get("outputSchema").Exists() {
		raw = wire.SetMember(raw, "structuredContent", orNull(res.Value))
	}
	return call.Result{Raw: raw}, nil
}

// CheckComposite returns an error for arguments that do not match the inputSchema of a tool that a file
// defines, or a returned value, nil for null, that does not match its outputSchema.
func CheckComposite(c *script.Composite, member string, value wire.Raw) error {
	schema := wire.ValueOf(c.Definition).Get(member)
	if !schema.Exists() {
		return nil
	}
	err := toolschema.New(schema.Raw()).Validate(orNull(value))
	switch {
	case err == nil, toolschema.IsUnchecked(err):
		return nil
	case member == "inputSchema":
		return fmt.Errorf("the arguments do not match input_schema: %w", err)
	default:
		return fmt.Errorf("the returned value does not match output_schema: %w", err)
	}
}

func orNull(value wire.Raw) wire.Raw {
	if value == nil {
		return wire.Raw("null")
	}
	return value
}

// compositeFailed returns the result of a tool of a file that failed: what the file or a tool said, and no more,
// since clients need not know how the tool is made. The log has the place in the file.
func (in *invocation) compositeFailed(c *script.Composite, err error) (call.Result, error) {
	f, ok := errors.AsType[*script.Failure](err)
	if !ok {
		return call.Result{}, err
	}
	if in.tools.CompositeFailed != nil {
		in.tools.CompositeFailed(in.call, c.Name, f)
	}
	if f.Cause != "" {
		return mistake("%s failed: %s", c.Name, f.Cause), nil
	}
	return mistake("%s failed. The gateway's log has the reason at the request ID %s.", c.Name, in.call.ID), nil
}

// runProgram runs a program with the limits of the configuration.
func (in *invocation) runProgram(ctx context.Context, do func(context.Context, *script.Run) (script.Result, error)) (script.Result, error) {
	share, reserved := fairshare.ShareOf(in.call.ShareKey), int64(0)
	defer func() { in.tools.scripts.memory.Release(share, reserved) }()
	h := &scriptHost{in: in, progress: newProgress(in.call)}
	h.run = script.NewRun(script.Options{
		Host: h, Limits: in.tools.Scripts().Limits, Clock: Clock{}, Turns: in.tools.scripts.turns,
		Reserve: func(n int64) error {
			if err := in.tools.scripts.memory.Acquire(share, n); err != nil {
				return errors.New("other scripts use the memory for scripts now. Run the script again later, or work on less data")
			}
			reserved += n
			return nil
		},
	})
	return do(ctx, h.run)
}

// failed returns the result of a script that failed. Other errors end the call.
func failed(err error) (call.Result, error) {
	if f, ok := errors.AsType[*script.Failure](err); ok {
		return mistake("%s", f.Text()), nil
	}
	return call.Result{}, err
}

// scriptResult returns a result with a block of what the script printed and one of what it returned.
func scriptResult(res script.Result) wire.Raw {
	var blocks []string
	if res.Output != "" {
		blocks = append(blocks, res.Output)
	}
	if res.Text {
		blocks = append(blocks, wire.ValueOf(res.Value).Str())
	} else if res.Value != nil {
		blocks = append(blocks, string(res.Value))
	}
	if len(blocks) == 0 {
		blocks = append(blocks, "The script printed and returned nothing.")
	}
	raw := wire.Raw(`{"content":[`)
	for i, b := range blocks {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, content.TextBlock(b)...)
	}
	return append(raw, ']', '}')
}

// scriptHost gives a script access to the tools of the caller's view.
type scriptHost struct {
	in       *invocation
	run      *script.Run
	progress *progress
}

// now returns the invocation with what the caller sees now: a reload may have changed it.
func (h *scriptHost) now() *invocation {
	in := *h.in
	if in.tools.View != nil {
		in.view = in.tools.View(in.call)
	}
	return &in
}

// Call implements script.Host.
func (h *scriptHost) Call(ctx context.Context, name string, arguments wire.Raw) (wire.Raw, error) {
	if isMeta(name) {
		return nil, fmt.Errorf("%s cannot be called from a script. A script has call, search and describe", name)
	}
	target, known := h.now().view.Resolve(call.Tool, name)
	token, end := h.progress.begin(name)
	params := append(wire.AppendString(wire.Raw(`{"name":`), name), `,"arguments":`...)
	params = append(append(params, arguments...), '}')
	if meta := h.in.innerMeta(token); meta != nil {
		params = wire.SetMember(params, "_meta", meta)
	}
	c := h.in.call.With(params)
	c.Method = wire.MethodToolsCall
	c.Back = &scriptBack{to: h.in.call.Back, host: h}
	res, err := h.in.inner(ctx, c)
	end(err == nil && !res.Value().Get("isError").Bool())
	if rpc, ok := errors.AsType[*wire.Error](err); ok && !known && rpc.Code == wire.CodeInvalidParams {
		if h.in.composed {
			return nil, errNoTool
		}
		return nil, fmt.Errorf("there is no tool %q.%s", plaintext.Clip(name, maxNamed), h.similar(name))
	}
	if h.in.composed && known && !target.Part.Own() && err == nil && res.Revision == "" && res.Value().Get("isError").Bool() {
		return nil, errWrongCall // the gateway's words name the tool
	}
	if err == nil && known {
		h.in.tools.memory.remember(h.in.call.Principal.Key(), name)
	}
	return res.Raw, err
}

// errNoTool is what a tool of a file gets in place of the name of a tool that its caller does not have.
var errNoTool = errors.New("it needs a tool that you do not have")

// errWrongCall is what it gets for a call that the gateway did not send.
var errWrongCall = errors.New("one of its calls has arguments that do not match the schema of the tool")

func (h *scriptHost) similar(name string) string {
	if near := h.now().near(name); len(near) > 0 {
		return " Did you mean " + strings.Join(near, " or ") + "?"
	}
	return ` Find the names of tools with print(search("words"))`
}

// Search implements script.Host.
func (h *scriptHost) Search(ctx context.Context, arguments wire.Raw) (wire.Raw, error) {
	return h.answer(arguments, func(in *invocation) call.Result { return in.search(ctx) }, "tools")
}

// Describe implements script.Host.
func (h *scriptHost) Describe(_ context.Context, names []string) ([]wire.Raw, error) {
	tools, err := h.answer(wire.SetMember(wire.Raw(`{}`), "names", wire.Strings(names)), (*invocation).describe, "tools")
	if err != nil {
		return nil, err
	}
	var out []wire.Raw
	for d := range wire.ValueOf(tools).Elements() {
		out = append(out, d.Raw())
	}
	return out, nil
}

// answer returns a member of the structured content of another own tool, or its text as an error.
func (h *scriptHost) answer(arguments wire.Raw, tool func(*invocation) call.Result, member string) (wire.Raw, error) {
	other := h.now()
	other.args = wire.ValueOf(arguments)
	result := wire.ValueOf(tool(other).Raw)
	if result.Get("isError").Bool() {
		var text strings.Builder
		for b := range result.Get("content").Elements() {
			text.WriteString(b.Get("text").Str())
		}
		return nil, errors.New(text.String())
	}
	return result.Get("structuredContent", member).Raw(), nil
}

// innerMeta returns the _meta of an inner call: that of the script's own call with another
// progress token, nil for none.
func (in *invocation) innerMeta(token string) wire.Raw {
	meta := wire.ValueOf(in.call.Params).Get("_meta")
	if meta.Kind() != '{' {
		return nil
	}
	e := wire.NewEdit(meta.Raw())
	if token != "" {
		e.ReplaceString(e.Root().Get(wire.MetaProgressToken), token)
	}
	return e.Bytes()
}

// scriptBack carries what comes during an inner call to the client of the script.
type scriptBack struct {
	to   call.BackChannel
	host *scriptHost
}

// Notify implements call.BackChannel. The progress of an inner call becomes that of the script.
func (b *scriptBack) Notify(method string, params wire.Raw) {
	if method == wire.NoteProgress {
		b.host.progress.inner(wire.ValueOf(params))
		return
	}
	b.to.Notify(method, params)
}

// Ask implements call.BackChannel. The time of the script stands still while a person is asked.
func (b *scriptBack) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	b.host.run.Pause()
	defer b.host.run.Resume()
	return b.to.Ask(ctx, method, params)
}

// Clock is the clock of the process.
type Clock struct{}

// These methods implement script.Clock.
func (Clock) Now() time.Time { return time.Now() }
func (Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}
