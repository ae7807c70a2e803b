package gateway

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
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// Outcome is what became of trying one item.
type Outcome uint8

// The outcomes.
const (
	ProbeOK      Outcome = iota // the answer keeps to the specification
	ProbeFaults                 // it does not
	ProbeFailed                 // a tool says in the specified way that it failed
	ProbeError                  // the upstream answered with an error
	ProbeLost                   // it answered nothing that could be read, or is gone
	ProbeTimeout                // it did not answer in time
	ProbeSkipped                // it was not asked
)

// String returns the outcome in one word.
func (o Outcome) String() string {
	return [...]string{"ok", "faults", "tool_error", "error", "lost", "timeout", "skipped"}[o]
}

// Probed is what trying one item has shown.
type Probed struct {
	Upstream, Method string
	Kind             call.Kind
	Native, Public   string
	Arguments        wire.Raw // of tools that were called
	Outcome          Outcome
	Why              string          // for every outcome but ProbeOK and ProbeFaults: what happened, or why it was not asked
	Needs            []string        // the arguments for want of which it was not asked
	Asked            int             // questions that it had, to which it was told that nobody answers
	Verdict          conform.Verdict // of ProbeFaults
	Took             time.Duration
}

// ProbeLimits bound what a probe does.
type ProbeLimits struct {
	Call time.Duration // one request
	// Items is how many items of each kind are asked for.
	Items [call.Kinds]int
}

// maxProbeTimeouts is how many requests may go without an answer before an
// upstream is left alone.
const maxProbeTimeouts = 5

// Probe tries what an upstream offers, as a client would, and holds the answers
// against the specification: it calls the tools that say that they only read, gets the
// prompts that need no arguments, and reads resources that are listed. Questions are
// answered as where nobody sits. One request follows the other, so that what an
// upstream does can be told to belong to it. Of what it did not ask for it says why. The order
// is that of lists: tools, prompts, resources. When ctx ends, so does what is
// under way.
func (v *Visit) Probe(ctx context.Context, name string, limits ProbeLimits) []*Probed {
	view := v.Table().View(call.Anonymous, probeClient)
	reads := v.readers(name)
	var all []*Probed
	timeouts := 0
	for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource} {
		tried := 0
		for _, e := range view.Entries(kind) {
			if e.Upstream() != name {
				continue
			}
			p := newProbed(e, reads)
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
			if v.try(ctx, p, limits.Call); p.Outcome == ProbeTimeout {
				timeouts++
			}
			if ctx.Err() != nil {
				return all
			}
		}
	}
	return all
}

// readers returns the tools of an upstream, by native name, that say themselves
// that they only read. What the gateway has mended counts for nothing here.
func (v *Visit) readers(name string) map[string]bool {
	m := v.g.lineup.Load().member(name)
	if m == nil {
		return nil
	}
	reads := make(map[string]bool)
	for _, raw := range m.serving.Load().snapshot().Catalog.Tools {
		tool := wire.ValueOf(raw)
		native := tool.Get("name").Str()
		before, twice := reads[native]
		reads[native] = onlyReads(tool) && (before || !twice)
	}
	return reads
}

// onlyReads reports whether a tool says that it only reads, and nothing else.
func onlyReads(tool wire.Value) bool {
	reads, hints := false, 0
	for m := range tool.Members() {
		if !m.Is("annotations") {
			continue
		}
		hints++
		said := 0
		for h := range m.Value.Members() {
			switch {
			case h.Is("readOnlyHint"):
				said++
				reads = h.Value.Bool()
			case h.Is("destructiveHint") && h.Value.Kind() != 'f':
				return false
			}
		}
		reads = reads && said == 1
	}
	return reads && hints == 1
}

// newProbed says what an item would be asked, or why it is not.
func newProbed(e *catalog.Entry, reads map[string]bool) *Probed {
	p := &Probed{Upstream: e.Upstream(), Kind: e.Kind, Native: e.Native, Public: e.Public}
	item := wire.ValueOf(e.Raw)
	switch e.Kind {
	case call.Tool:
		p.Method = wire.MethodToolsCall
		if !reads[e.Native] {
			p.skip("not marked as read-only (readOnlyHint)")
			return p
		}
		var err error
		if p.Arguments, p.Needs, err = conform.Arguments(item.Get("inputSchema"), e.Input); err != nil {
			p.skip("%s", err)
		}
	case call.Prompt:
		p.Method = wire.MethodPromptsGet
		for a := range item.Get("arguments").Elements() {
			if a.Get("required").Bool() {
				p.Needs = append(p.Needs, a.Get("name").Str())
			}
		}
		if len(p.Needs) > 0 {
			p.skip("it needs %s", strings.Join(p.Needs, ", "))
		}
	case call.Resource:
		p.Method = wire.MethodResourcesRead
	}
	return p
}

// skip says why an item is not asked for.
func (p *Probed) skip(format string, args ...any) {
	p.Outcome, p.Why = ProbeSkipped, fmt.Sprintf(format, args...)
}

// try asks for one item.
func (v *Visit) try(ctx context.Context, p *Probed, within time.Duration) {
	timed, cancel := context.WithTimeout(ctx, within)
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
	back := &refusing{}
	heard := v.g.probes.expect(p)
	begin := time.Now()
	res, err := v.Call(timed, &call.Call{
		ID: "probe", Method: p.Method, Params: params, Principal: call.Anonymous, Client: probeClient, LogLevel: wire.LevelNone, Back: back,
	})
	p.Took = time.Since(begin)
	p.Verdict = heard()
	p.Asked = back.count()
	rpc, isRPC := errors.AsType[*wire.Error](err)
	switch {
	case len(p.Verdict.Findings) > 0:
		p.Outcome = ProbeFaults
	case err == nil && wire.ValueOf(res.Raw).Get("isError").Bool() && p.Kind == call.Tool:
		p.Outcome, p.Why = ProbeFailed, cmp.Or(textOf(res.Raw), "it does not say why")
	case err == nil:
	case timed.Err() != nil:
		p.Outcome, p.Why = ProbeTimeout, fmt.Sprintf("no answer within %s", within)
		if ctx.Err() != nil {
			p.Why = "the check was ended"
		}
	case isRPC && wire.ValueOf(rpc.Data).Get("upstream").IsString(p.Upstream):
		p.Outcome, p.Why = ProbeLost, cmp.Or(wire.ValueOf(rpc.Data).Get("reason").Str(), rpc.Message)
		if s := v.state(p.Upstream); s.State == upstream.Down && s.Reason != "" {
			p.Why = s.Reason
		}
	case isRPC:
		p.Outcome, p.Why = ProbeError, fmt.Sprintf("error %d: %s", rpc.Code, rpc.Message)
	default:
		p.Outcome, p.Why = ProbeLost, err.Error()
	}
}

// state is how an upstream is now.
func (v *Visit) state(name string) UpstreamStatus {
	all := v.Upstreams()
	if i := slices.IndexFunc(all, func(u UpstreamStatus) bool { return u.Name == name }); i >= 0 {
		return all[i]
	}
	return UpstreamStatus{}
}

// textOf is the first text of a tool's result.
func textOf(result wire.Raw) string {
	for block := range wire.ValueOf(result).Get("content").Elements() {
		if text := block.Get("text").Str(); text != "" {
			return text
		}
	}
	return ""
}

// probeClient is the client that probes have. It can do everything, so that
// upstreams offer it everything, and nobody sits there.
var probeClient = &call.Client{
	Key: "probe", Revision: wire.Rev20251125, Info: wire.Raw(`{"name":"gateway-check","version":"1"}`),
	Capabilities: wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`),
}

// refusing is a back channel where nobody sits. Its questions are answered at once.
type refusing struct {
	mu    sync.Mutex
	asked int
}

func (*refusing) Notify(string, wire.Raw) {}

func (r *refusing) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *refusing) Ask(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
	r.mu.Lock()
	r.asked++
	r.mu.Unlock()
	switch method {
	case wire.MethodElicit:
		return wire.Raw(`{"action":"cancel"}`), nil
	case wire.MethodRootsList:
		return wire.Raw(`{"roots":[]}`), nil
	default:
		return nil, wire.Errorf(-1, "the user has rejected the request: this is a check, and nobody sits here")
	}
}

// probes are the answers whose faults somebody wants to know. The zero probes is
// ready for use.
type probes struct{ wanted sync.Map } // probeKey → *probeFaults

type probeKey struct{ upstream, method, native string }

type probeFaults struct {
	mu      sync.Mutex
	verdict conform.Verdict
}

// expect has the faults of one answer kept until the function is called that it
// returns.
func (p *probes) expect(of *Probed) (heard func() conform.Verdict) {
	key, faults := probeKey{of.Upstream, of.Method, of.Native}, &probeFaults{}
	p.wanted.Store(key, faults)
	return func() conform.Verdict {
		p.wanted.CompareAndDelete(key, faults)
		faults.mu.Lock()
		defer faults.mu.Unlock()
		return faults.verdict
	}
}

// heard keeps the faults of an answer that somebody waits for.
func (p *probes) heard(n router.Nonconforming) {
	found, ok := p.wanted.Load(probeKey{n.Upstream, n.Method, n.Native})
	if !ok {
		return
	}
	faults := found.(*probeFaults)
	faults.mu.Lock()
	defer faults.mu.Unlock()
	faults.verdict = n.Verdict
}
