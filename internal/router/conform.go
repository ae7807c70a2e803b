package router

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

// conform holds the result of an item against the specification, as the rules of its
// upstream say, and returns what takes its place.
func (f *forwarding) conform(result wire.Raw) (wire.Raw, error) {
	part := f.target.Part
	if part.Rules().Conformance == conform.Off {
		return result, nil
	}
	at := f.itemResult(result)
	if !at.Exists() {
		return result, nil
	}
	s := f.view.ResultChecker(f.target, f.itemMethod(), f.result.Revision)
	s.Long = f.result.Long
	v := s.Check(at.Raw())
	if len(v.Violations) > 0 {
		f.nonconforming(part.Upstream(), s.Method, f.target.Native, v.Violations, v.More)
		if f.router.onNonconforming != nil {
			f.router.onNonconforming(Nonconforming{part.Upstream(), s.Method, f.target.Native, v})
		}
	}
	if v.Refused { // the server reports no error
		f.log.reason = plaintext.Line(f.router.withoutArguments(plaintext.Clip(f.router.masked(v.Reason), 4*maxReason), f.call.Params), maxReason)
	}
	if v.Err != nil {
		return nil, v.Err.WithData(refusalData(part.Upstream()))
	}
	return f.replaceItemResult(result, at, v.Result), nil
}

// refusalData is the data of the error that replaces an answer which violates the specification.
func refusalData(upstream string) wire.Raw {
	data := wire.SetMember(wire.Raw(`{}`), "upstream", wire.String(upstream))
	data = wire.SetMember(data, "reason", wire.String("its answer does not keep to the specification"))
	data = wire.SetMember(data, "since", wire.String(time.Now().UTC().Format(time.RFC3339)))
	return wire.SetMember(data, "retryable", wire.Raw("false"))
}

// Nonconforming is an answer that violates the specification.
type Nonconforming struct {
	Upstream, Method string
	Native           string // name or URI of the item that answered
	Verdict          conform.Verdict
}

// nonconforming counts and logs the violations in one answer of an upstream, and keeps their kinds
// for the line of the call. Each kind of violation has a line of its own once for each item.
func (f *forwarding) nonconforming(upstream, method, item string, findings []conform.Violation, more int) {
	r := f.router
	for _, v := range findings {
		r.metrics.violations.WithLabelValues(upstream, v.Kind.String()).Inc()
		if kind := v.Kind.String(); !slices.Contains(f.log.violations, kind) {
			f.log.violations = append(f.log.violations, kind)
		}
		if r.loggedOnce.first(loggedViolation{upstream, method, item, v.Kind}) {
			r.log.Warn("an upstream does not keep to the specification", zap.String("upstream", upstream), zap.String("method", method),
				zap.String("item", clip(item)), zap.Stringer("kind", v.Kind), zap.String("path", v.Path), zap.String("violation", v.Message),
				zap.String("specification", v.Section), zap.Bool("repaired", v.Repaired), zap.Int("more", more), zap.String("request", f.call.ID))
		}
	}
}

// ReportFinding counts and logs a finding of a table, the first time that a table has it. Only
// the control loop calls it.
func (r *Router) ReportFinding(profile string, f catalog.Finding) {
	switch f.Issue {
	case catalog.Quarantined, catalog.Duplicate, catalog.Nonconforming:
		r.metrics.violations.WithLabelValues(f.Upstream, f.Against.String()).Inc()
	case catalog.Sanitized:
		r.metrics.countSanitized(f.Upstream, f.Removed)
	}
	r.log.Warn("catalog", zap.Stringer("issue", f.Issue), zap.Stringer("kind", f.Kind), zap.String("upstream", f.Upstream),
		zap.String("native", clip(f.Native)), zap.String("public", cmp.Or(f.Public, f.HeldName)), zap.String("reason", f.Reason), ratelog.Profile(profile))
}

// countSanitized counts what was removed from texts.
func (m *Metrics) countSanitized(upstream string, t sanitize.Counts) {
	for i, n := range t {
		if n > 0 {
			m.sanitized.WithLabelValues(upstream, sanitize.ClassNames[i]).Add(float64(n))
		}
	}
}

// loggedViolation is a violation that was logged.
type loggedViolation struct {
	upstream, method, item string
	kind                   conform.Kind
}

// maxLogOnce bounds the remembered violations, because clients can name resources at will. Later
// ones are only counted.
const maxLogOnce = 4096

// logOnce remembers which violations were logged.
type logOnce struct {
	mu   sync.RWMutex
	seen map[loggedViolation]bool
}

// first reports whether the violation has to be logged.
func (s *logOnce) first(what loggedViolation) bool {
	s.mu.RLock()
	known := s.seen[what] || len(s.seen) >= maxLogOnce
	s.mu.RUnlock()
	if known {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[what] || len(s.seen) >= maxLogOnce {
		return false
	}
	if s.seen == nil {
		s.seen = map[loggedViolation]bool{}
	}
	s.seen[what] = true
	return true
}
