package router

import (
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// beginTrace begins the trace of a call. Its stages are measured if there is a tracer, if slow
// calls are logged, or while somebody looks.
func (r *Router) beginTrace(c *call.Call, begin time.Time) {
	switch {
	case c.Trace == nil:
	case r.tracer != nil:
		c.Trace.Begin(time.Now, r.tracer.Begin(c, labelOf(c), c.Trace.Parent, begin))
	case r.Routes().Slow > 0 || r.watched():
		c.Trace.Begin(time.Now, nil)
	}
}

// endTrace ends the span of a call, and logs a slow call. It reports whether the trace is exported.
func (r *Router) endTrace(c *call.Call, log *logFields, begin time.Time, duration time.Duration, res call.Result, err error) (exported bool) {
	if slow := r.Routes().Slow; slow > 0 && duration >= slow {
		r.logSlow(c, log, duration, res.Raw, err)
	}
	span := c.Trace.Span()
	if span == nil {
		return false
	}
	outcome := log.outcomeOf(c, res.Raw, err)
	end := call.SpanEnd{Err: err, Outcome: outcome, Item: log.item, Upstream: log.upstream, Rule: log.rule, Revision: res.Revision}
	switch outcome {
	case outcomeToolError:
		end.ToolError, end.Keep = true, true
	case outcomeError, outcomeUnavailable: // not what clients can cause as often as they like
		end.Keep = true
	}
	return span.End(begin.Add(duration), end)
}

// logSlow logs a slow call with the time that it spent in each stage.
func (r *Router) logSlow(c *call.Call, log *logFields, duration time.Duration, res wire.Raw, err error) {
	fields := []zap.Field{
		zap.String("request", c.ID), zap.String("principal", c.Principal.Subject), ratelog.Profile(c.Principal.Profile),
		zap.String("method", labelOf(c)),
	}
	for _, f := range []struct{ name, value string }{{"key", c.Principal.KeyID}, {"upstream", log.named()}, {"item", log.item}, {"rule", log.rule}, {"replica", c.Trace.Replica()}, {"trace_id", c.Trace.ID()}} {
		if f.value != "" {
			fields = append(fields, zap.String(f.name, f.value))
		}
	}
	outcome := log.outcomeOf(c, res, err)
	fields = append(fields, zap.String("outcome", outcome))
	if reason := r.reasonOf(outcome, c, log, err); reason != "" {
		fields = append(fields, zap.String("reason", reason))
	}
	if len(log.asks) > 0 {
		fields = append(fields, zap.Strings("asks", log.asks))
	}
	if len(log.violations) > 0 {
		fields = append(fields, zap.Strings("violations", log.violations))
	}
	fields = append(fields, zap.Float64("duration_ms", milliseconds(duration)))
	for s := range call.NumStages {
		if spent := c.Trace.Spent(s); spent > 0 {
			fields = append(fields, zap.Float64(s.String()+"_ms", milliseconds(spent)))
		}
	}
	r.ratelog.Warn("slow call", fields...)
}
