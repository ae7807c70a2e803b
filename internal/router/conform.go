package router

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// refuseArguments returns the result of a tool call whose arguments do not fit
// the tool's inputSchema, nil when they do or are not to be checked.
func (j *journey) refuseArguments() wire.Raw {
	part, item := j.target.Part, j.target.Entry
	if j.c.Method != wire.MethodToolsCall || item == nil || item.Input == nil || !part.Rules().ValidateInput {
		return nil
	}
	arguments := wire.ValueOf(j.c.Params).Get("arguments").Raw()
	if arguments == nil {
		arguments = wire.Raw(`{}`)
	}
	refusal := toolschema.RejectArguments(j.target.Public, item.Input, arguments)
	if refusal != nil {
		j.r.metrics.inputs.WithLabelValues(part.Upstream()).Inc()
	}
	return refusal
}

// conform holds a result, under public names, against the specification as the
// rules of its upstream say, and returns what takes its place.
func (r *Router) conform(s conform.ResultChecker, t catalog.Target, result wire.Raw) (wire.Raw, *wire.Error) {
	if s.Mode == conform.Off {
		return result, nil
	}
	v := s.Check(result)
	if len(v.Violations) > 0 {
		r.nonconforming(t.Part.Upstream(), s.Method, t.Native, v.Violations, v.More)
		if r.tell != nil {
			r.tell(Nonconforming{t.Part.Upstream(), s.Method, t.Native, v})
		}
	}
	if v.Err != nil {
		return nil, v.Err.WithData(refusalData(t.Part.Upstream()))
	}
	return v.Result, nil
}

// refusalData is the data of the error that takes the place of an answer which
// does not keep to the specification.
func refusalData(upstream string) wire.Raw {
	data := wire.SetMember(wire.Raw(`{}`), "upstream", wire.String(upstream))
	data = wire.SetMember(data, "reason", wire.String("its answer does not keep to the specification"))
	data = wire.SetMember(data, "since", wire.String(time.Now().UTC().Format(time.RFC3339)))
	return wire.SetMember(data, "retryable", wire.Raw("false"))
}

// conformTask holds what an upstream says of a task against the specification:
// the result of the tool that the task ran, if the message has it.
func (r *Router) conformTask(c *call.Call, part *catalog.Part, t heldTask, res call.Result) (wire.Raw, error) {
	at := wire.ValueOf(res.Raw)
	shape := wire.MethodOf(c.Method).Shape
	whole := shape == wire.ShapeToolResult
	if !whole {
		at = at.Get("result")
	}
	if part.Rules().Conformance == conform.Off || !at.Exists() || !whole && shape != wire.ShapeTask {
		return res.Raw, nil
	}
	v := view(r.Routes(), c)
	tool := catalog.Target{Part: part, Kind: call.Tool, Public: t.ref.Public, Native: t.ref.Tool}
	if listed, ok := v.Resolve(call.Tool, tool.Public); ok && listed.Part == part {
		tool.Entry = listed.Entry
	}
	out, fault := r.conform(v.Subject(tool, wire.MethodToolsCall, res.Revision), tool, at.Raw())
	switch {
	case fault != nil:
		return nil, fault
	case whole:
		return out, nil
	}
	e := wire.NewEdit(res.Raw)
	e.Replace(at, out)
	return e.Bytes(), nil
}

// Nonconforming is an answer that does not keep to the specification.
type Nonconforming struct {
	Upstream, Method string
	Native           string // name or URI of the item that answered
	Verdict          conform.Verdict
}

// nonconforming counts and logs what is wrong with one answer of an upstream.
// Every sort of fault is logged once for each item.
func (r *Router) nonconforming(upstream, method, item string, findings []conform.Violation, more int) {
	for _, f := range findings {
		r.metrics.faults.WithLabelValues(upstream, f.Kind.String()).Inc()
		if r.said.first(said{upstream, method, item, f.Kind}) {
			r.log.Warn("an upstream does not keep to the specification", zap.String("upstream", upstream), zap.String("method", method),
				zap.String("item", clip(item)), zap.Stringer("kind", f.Kind), zap.String("path", f.Path), zap.String("fault", f.Message),
				zap.String("specification", f.Section), zap.Bool("mended", f.Repaired), zap.Int("more", more))
		}
	}
}

// Found counts and logs a finding of a table, the first time that it is in one.
// It is called by the control loop alone.
func (r *Router) Found(f catalog.Finding) {
	switch f.What {
	case catalog.Quarantined, catalog.Duplicate, catalog.Nonconforming:
		r.metrics.faults.WithLabelValues(f.Upstream, f.Against.String()).Inc()
	case catalog.Sanitized:
		r.metrics.tookOut(f.Upstream, f.Removed)
	}
	r.log.Warn("catalog", zap.Stringer("fault", f.What), zap.Stringer("kind", f.Kind), zap.String("upstream", f.Upstream),
		zap.String("native", clip(f.Native)), zap.String("public", f.Public), zap.String("reason", f.Reason))
}

// tookOut counts what was taken out of texts.
func (m *Metrics) tookOut(upstream string, t sanitize.Counts) {
	for i, n := range t {
		if n > 0 {
			m.cleaned.WithLabelValues(upstream, sanitize.ClassNames[i]).Add(float64(n))
		}
	}
}

func (r *Router) cleanResult(part *catalog.Part, result wire.Raw) wire.Raw {
	result, taken := part.Rules().Sanitize.Result(result)
	r.metrics.tookOut(part.Upstream(), taken)
	return result
}

func (r *Router) cleanAsk(part *catalog.Part, method string, params wire.Raw) wire.Raw {
	params, taken := part.Rules().Sanitize.Request(method, params)
	r.metrics.tookOut(part.Upstream(), taken)
	return params
}

func (r *Router) cleanError(part *catalog.Part, e *wire.Error) *wire.Error {
	e, taken := part.Rules().Sanitize.Error(e)
	r.metrics.tookOut(part.Upstream(), taken)
	return e
}

// said is what was logged once.
type said struct {
	upstream, method, item string
	fault                  conform.Kind
}

// maxSaid bounds what is remembered of that. Resources are items that a client
// can name at will, so it must be bounded; what comes later is counted only.
const maxSaid = 4096

// saidOnce remembers what was logged.
type saidOnce struct {
	mu   sync.RWMutex
	seen map[said]bool
}

// first reports whether something is to be logged.
func (s *saidOnce) first(what said) bool {
	s.mu.RLock()
	known := s.seen[what] || len(s.seen) >= maxSaid
	s.mu.RUnlock()
	if known {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[what] || len(s.seen) >= maxSaid {
		return false
	}
	if s.seen == nil {
		s.seen = map[said]bool{}
	}
	s.seen[what] = true
	return true
}
