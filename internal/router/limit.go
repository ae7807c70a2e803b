package router

import (
	"context"
	"math"
	"strconv"
	"strings"
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
	return false, f.limited(refusal)
}

// checkLimits returns the error that the call would get from limit now. It takes nothing.
func (f *forwarding) checkLimits() error {
	return f.limited(f.router.peekLimits(f.decision.Limits, f.call, f.target))
}

// limited counts a call that goes over a limit and returns its error, nil for nil.
func (f *forwarding) limited(refusal *excess) error {
	if refusal == nil {
		return nil
	}
	f.log.reason = refusal.String()
	f.router.metrics.limited.WithLabelValues(refusal.limit.Rule).Inc()
	return tooMany(f.upstreamName(), f.router.limits.now(), refusal.wait)
}

// String says for operators which limit is reached: "the limit of rule "guests", 2 calls per
// minute for each principal, is reached".
func (e *excess) String() string {
	var parts []string
	if e.limit.Rate > 0 {
		n, unit := e.limit.Stated()
		parts = append(parts, calls(n)+" per "+unit)
	}
	if n := e.limit.Concurrent; n > 0 {
		parts = append(parts, calls(float64(n))+" at the same time")
	}
	of := "for each " + e.limit.Per.String()
	if e.limit.Per == policy.PerRule {
		of = "for the rule as a whole"
	}
	if e.share {
		of += ", which is this replica's share while the store is away"
	}
	return "the limit of rule " + strconv.Quote(e.limit.Rule) + ", " + strings.Join(parts, " and ") + " " + of + ", is reached"
}

// calls writes a number of calls.
func calls(n float64) string {
	text := strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
	if text == "1" {
		return "1 call"
	}
	return text + " calls"
}

// tooMany is the error of a call that goes over a limit.
func tooMany(upstream string, since time.Time, wait time.Duration) error {
	data := catalog.Unavailable{Upstream: upstream, Since: since, Reason: "too many calls"}.Data()
	after := int(math.Ceil(wait.Seconds()))
	data = wire.SetMember(data, "retryAfter", wire.Raw(strconv.Itoa(after)))
	rpcErr := wire.Errorf(wire.CodeInternal, "too many calls: a limit of the gateway is reached; try again in %d s", after).WithData(data)
	return &call.Refused{Err: rpcErr, RetryAfter: time.Duration(after) * time.Second}
}
