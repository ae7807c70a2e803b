package router

import (
	"context"
	"math"
	"strconv"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// limit counts the call for the limits of the decision. The error says that a limit is reached.
func (f *forwarding) limit(ctx context.Context) (bool, error) {
	held, refusal, err := f.router.takeLimits(ctx, f.decision.Limits, f.call, f.target)
	if err != nil {
		return false, err
	}
	f.reservation = held
	if refusal != nil {
		f.log.reason = "a limit of rule " + strconv.Quote(refusal.rule) + " is reached"
	}
	return false, f.router.limited(f.target, refusal)
}

// checkLimits returns the error that a call would get from limit now. It takes nothing.
func (r *Router) checkLimits(c *call.Call, t catalog.Target, d *policy.Decision) error {
	return r.limited(t, r.peekLimits(d.Limits, c, t))
}

// limited counts a call that goes over a limit and returns its error, nil for nil.
func (r *Router) limited(t catalog.Target, refusal *excess) error {
	if refusal == nil {
		return nil
	}
	r.metrics.limited.WithLabelValues(refusal.rule).Inc()
	return tooMany(t.Part.Upstream(), r.limits.now(), refusal.wait)
}

// tooMany is the error of a call that goes over a limit.
func tooMany(upstream string, since time.Time, wait time.Duration) error {
	data := catalog.Unavailable{Upstream: upstream, Since: since, Reason: "too many calls"}.Data()
	after := int(math.Ceil(wait.Seconds()))
	data = wire.SetMember(data, "retryAfter", wire.Raw(strconv.Itoa(after)))
	rpcErr := wire.Errorf(wire.CodeInternal, "too many calls: a limit of the gateway is reached; try again in %d s", after).WithData(data)
	return &call.Refused{Err: rpcErr, RetryAfter: time.Duration(after) * time.Second}
}
