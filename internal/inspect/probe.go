package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// Outcome is the outcome of probing one item.
type Outcome uint8

// The outcomes.
const (
	ProbeOK         Outcome = iota // the answer keeps to the specification
	ProbeViolations                // the answer violates the specification
	ProbeFailed                    // the tool reported a failure in the specified way
	ProbeError                     // the upstream answered with an error
	ProbeLost                      // the upstream sent no readable answer, or is gone
	ProbeTimeout                   // the upstream did not answer in time
	ProbeSkipped                   // the item was not probed
)

// String returns the outcome as one word.
func (o Outcome) String() string {
	return [...]string{"ok", "faults", "tool_error", "error", "lost", "timeout", "skipped"}[o]
}

// ProbeResult is the result of probing one item.
type ProbeResult struct {
	Upstream, Method string
	Kind             call.Kind
	Native, Public   string
	Arguments        wire.Raw // of tools that were called
	Outcome          Outcome
	Reason           string          // for every outcome but ProbeOK and ProbeViolations: what happened, or why the item was skipped
	Missing          []string        // the arguments that were missing to probe the item
	Asks             int             // questions of the upstream, each answered as if no user were there
	Verdict          conform.Verdict // of ProbeViolations
	Took             time.Duration
}

// ProbeLimits bound a probe.
type ProbeLimits struct {
	Call  time.Duration   // the time for one request
	Items [call.Kinds]int // how many items of each kind are probed
}

// maxProbeTimeouts is how many requests may time out before the rest of an upstream's
// items is skipped.
const maxProbeTimeouts = 5

// Probe uses the items of an upstream as a client would, and checks the answers against
// the specification. It calls tools that declare themselves read-only, gets prompts
// without required arguments, and reads listed resources. Questions of the upstream are
// answered as if no user were there. Requests run one at a time, so that each effect
// belongs to one of them. Skipped items are in the result, with the reason. The order is
// that of the lists: tools, prompts, resources. Probe stops when ctx ends.
func (i *Inspector) Probe(ctx context.Context, name string, limits ProbeLimits) []*ProbeResult {
	view := i.Everything().View(call.Anonymous, probeClient)
	readOnly := i.readOnlyTools(name)
	var all []*ProbeResult
	timeouts := 0
	for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource} {
		tried := 0
		for _, e := range view.Entries(kind) {
			if e.Upstream() != name {
				continue
			}
			p := newProbe(e, readOnly)
			all = append(all, p)
			switch {
			case p.Outcome == ProbeSkipped:
				continue
			case timeouts == maxProbeTimeouts:
				p.skip("%d others have not answered in time", timeouts)
				continue
			case tried == limits.Items[kind]:
				p.skip("%d %s are enough", tried, kind.Plural())
				continue
			}
			tried++
			if i.probe(ctx, p, limits.Call); p.Outcome == ProbeTimeout {
				timeouts++
			}
			if ctx.Err() != nil {
				return all
			}
		}
	}
	return all
}

// readOnlyTools returns the native names of the tools that an upstream itself declares
// read-only. Repairs by the gateway do not count.
func (i *Inspector) readOnlyTools(name string) map[string]bool {
	readOnly := make(map[string]bool)
	for _, raw := range i.gateway.ListedTools(name) {
		tool := wire.ValueOf(raw)
		native := tool.Get("name").Str()
		before, duplicate := readOnly[native]
		readOnly[native] = declaresReadOnly(tool) && (before || !duplicate)
	}
	return readOnly
}

// declaresReadOnly reports whether a tool says that it only reads, and says nothing that
// contradicts it.
func declaresReadOnly(tool wire.Value) bool {
	readOnly, annotations := false, 0
	for m := range tool.Members() {
		if !m.Is("annotations") {
			continue
		}
		annotations++
		hints := 0
		for h := range m.Value.Members() {
			switch {
			case h.Is("readOnlyHint"):
				hints++
				readOnly = h.Value.Bool()
			case h.Is("destructiveHint") && h.Value.Kind() != 'f':
				return false
			}
		}
		readOnly = readOnly && hints == 1
	}
	return readOnly && annotations == 1
}

// newProbe returns the probe of an item, skipped if it cannot be probed.
func newProbe(e *catalog.Entry, readOnly map[string]bool) *ProbeResult {
	p := &ProbeResult{Upstream: e.Upstream(), Kind: e.Kind, Method: e.Kind.Method(), Native: e.Native, Public: e.Public}
	item := wire.ValueOf(e.Raw)
	switch e.Kind {
	case call.Tool:
		if !readOnly[e.Native] {
			p.skip("not marked as read-only (readOnlyHint)")
			return p
		}
		var err error
		if p.Arguments, p.Missing, err = toolschema.ExampleArguments(item.Get("inputSchema"), e.Input); err != nil {
			p.skip("%s", err)
		}
	case call.Prompt:
		for a := range item.Get("arguments").Elements() {
			if a.Get("required").Bool() {
				p.Missing = append(p.Missing, a.Get("name").Str())
			}
		}
		if len(p.Missing) > 0 {
			p.skip("it needs %s", strings.Join(p.Missing, ", "))
		}
	}
	return p
}

// skip marks an item as skipped.
func (p *ProbeResult) skip(format string, args ...any) {
	p.Outcome, p.Reason = ProbeSkipped, fmt.Sprintf(format, args...)
}

// probe uses one item.
func (i *Inspector) probe(ctx context.Context, p *ProbeResult, limit time.Duration) {
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	params := wire.SetMember(wire.Raw(`{}`), "name", wire.String(p.Public))
	switch p.Kind {
	case call.Tool:
		params = wire.SetMember(params, "arguments", p.Arguments)
	case call.Prompt:
		// Servers of the TypeScript SDK v1 refuse a missing object, even if every argument is optional.
		params = wire.SetMember(params, "arguments", wire.Raw(`{}`))
	case call.Resource:
		params = wire.SetMember(wire.Raw(`{}`), "uri", wire.String(p.Public))
	}
	back := &unattended{}
	verdict := i.await(p)
	start := time.Now()
	res, err := i.gateway.Handle(timed, &call.Call{
		ID: requestid.New(), Method: p.Method, Params: params, Principal: call.Anonymous, Client: probeClient, LogLevel: wire.LevelNone, Back: back,
	})
	p.Took = time.Since(start)
	p.Verdict = verdict()
	p.Asks = back.count()
	rpc, isRPC := errors.AsType[*wire.Error](err)
	switch {
	case len(p.Verdict.Violations) > 0:
		p.Outcome = ProbeViolations
	case err == nil && wire.ValueOf(res.Raw).Get("isError").Bool() && p.Kind == call.Tool:
		p.Outcome, p.Reason = ProbeFailed, cmp.Or(textOf(res.Raw), "it does not say why")
	case err == nil:
	case timed.Err() != nil:
		p.Outcome, p.Reason = ProbeTimeout, fmt.Sprintf("no answer within %s", limit)
		if ctx.Err() != nil {
			p.Reason = "the check was ended"
		}
	case isRPC && wire.ValueOf(rpc.Data).Get("upstream").IsString(p.Upstream):
		p.Outcome, p.Reason = ProbeLost, cmp.Or(wire.ValueOf(rpc.Data).Get("reason").Str(), rpc.Message)
		if s := i.upstream(p.Upstream); s.State == connector.Down && s.Reason != "" {
			p.Reason = s.Reason
		}
	case isRPC:
		p.Outcome, p.Reason = ProbeError, fmt.Sprintf("error %d: %s", rpc.Code, rpc.Message)
	default:
		p.Outcome, p.Reason = ProbeLost, err.Error()
	}
}

// upstream returns how an upstream is now.
func (i *Inspector) upstream(name string) Upstream {
	all := i.Upstreams()
	if at := slices.IndexFunc(all, func(u Upstream) bool { return u.Name == name }); at >= 0 {
		return all[at]
	}
	return Upstream{}
}

// textOf returns the first text of a tool's result.
func textOf(result wire.Raw) string {
	for block := range wire.ValueOf(result).Get("content").Elements() {
		if text := block.Get("text").Str(); text != "" {
			return text
		}
	}
	return ""
}

// probeClient is the client that makes the calls. It declares every capability, so that
// upstreams offer it everything.
var probeClient = &call.Client{
	Key: "probe", Revision: wire.Rev20251125, Info: wire.Raw(`{"name":"gateway-check","version":"1"}`),
	Capabilities: wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`),
}

// unattended is the back channel to a client without a user. It answers questions at
// once.
type unattended struct {
	mu   sync.Mutex
	asks int
}

// Notify implements call.BackChannel.
func (*unattended) Notify(string, wire.Raw) {}

func (u *unattended) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asks
}

// Ask implements call.BackChannel.
func (u *unattended) Ask(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
	u.mu.Lock()
	u.asks++
	u.mu.Unlock()
	if answer := refusals[method]; answer != nil {
		return answer, nil
	}
	return nil, wire.Errorf(-1, "the user has rejected the request: this is a check, and no user is there")
}

// refusals are the answers to asks that have one for a user who is not there.
var refusals = map[string]wire.Raw{
	wire.MethodElicit:    wire.Raw(`{"action":"cancel"}`),
	wire.MethodRootsList: wire.Raw(`{"roots":[]}`),
}

// answerKey identifies the answer that a probe waits for.
type answerKey struct{ upstream, method, native string }

// violations are those of one answer.
type violations struct {
	mu      sync.Mutex
	verdict conform.Verdict
}

// await collects the violations of the answer to a probe until the returned function is
// called, which returns them.
func (i *Inspector) await(p *ProbeResult) (verdict func() conform.Verdict) {
	key, found := answerKey{p.Upstream, p.Method, p.Native}, &violations{}
	i.awaited.Store(key, found)
	return func() conform.Verdict {
		i.awaited.CompareAndDelete(key, found)
		found.mu.Lock()
		defer found.mu.Unlock()
		return found.verdict
	}
}

// Nonconforming takes the verdict about an answer that violates the specification. The
// gateway calls it for each such answer; those that no probe waits for are ignored.
func (i *Inspector) Nonconforming(upstream, method, native string, v conform.Verdict) {
	awaited, ok := i.awaited.Load(answerKey{upstream, method, native})
	if !ok {
		return
	}
	found := awaited.(*violations)
	found.mu.Lock()
	defer found.mu.Unlock()
	found.verdict = v
}
