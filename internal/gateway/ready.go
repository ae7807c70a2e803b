package gateway

import (
	"cmp"
	"fmt"
	"time"

	"mcpgateway/internal/admin"
	"mcpgateway/internal/upstream/connector"
)

// reasonFunc returns why an upstream is in its state, for the readers of a sentence about it; "" leaves the reason out.
type reasonFunc func(connector.Snapshot) string

func reasonForAll(s connector.Snapshot) string      { return s.Reason }
func reasonForOperator(s connector.Snapshot) string { return cmp.Or(s.Advice, s.Reason) }
func withoutReason(connector.Snapshot) string       { return "" }

// withHealth returns the options of a handler with the pages of health for readers of these reasons.
func (g *Gateway) withHealth(o admin.Options, why reasonFunc) admin.Options {
	o.Ready = func() []string { return g.notReady(why) }
	o.Down = func() []string { return g.down(why) }
	o.Failing = func() []string { return g.failing(why) }
	return o
}

// waitingFor returns what the gateway waits for before it may get traffic, one sentence
// each: required upstreams until they are ready, other upstreams until their first attempt
// has ended or startup_wait has passed, and then the first table with their items.
func (g *Gateway) waitingFor(why reasonFunc) []string {
	if g.draining.Load() {
		return []string{"the gateway is draining"}
	}
	var waiting []string
	for _, e := range g.generation.Load().entries {
		s := e.active.Load().snapshot()
		switch {
		case e.required && s.Unlisted():
			waiting = append(waiting, fmt.Sprintf("required upstream %s answers no list", e.name)+because(why(s)))
		case s.Available():
		case e.required:
			waiting = append(waiting, fmt.Sprintf("required upstream %s is %s", e.name, s.State)+because(why(s)))
		case !s.Settled && !g.isStarted():
			waiting = append(waiting, fmt.Sprintf("upstream %s is %s", e.name, s.State)+because(why(s)))
		}
	}
	if len(waiting) == 0 && !g.isStarted() {
		waiting = append(waiting, "the first lists of the upstreams are not merged yet")
	}
	return waiting
}

// because is the end of a sentence with a reason, "" without one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// down returns the upstreams that are down although the gateway is ready, one sentence each.
func (g *Gateway) down(why reasonFunc) []string {
	var all []string
	for _, e := range g.generation.Load().entries {
		c := e.active.Load()
		s := c.snapshot()
		if e.required || s.Available() || !s.Settled && !g.isStarted() { // see waitingFor
			continue
		}
		all = append(all, fmt.Sprintf("upstream %s is %s since %s", e.name, s.State, s.Since.UTC().Format(time.RFC3339))+because(why(s))+c.usersConnected(s))
	}
	return all
}

// failing returns the upstreams of which a list fails although the gateway is ready, those whose circuit breakers are
// not closed, and failingParts, one sentence each.
func (g *Gateway) failing(why reasonFunc) []string {
	all := g.failingParts()
	for _, e := range g.generation.Load().entries {
		c := e.active.Load()
		if s := c.snapshot(); s.State == connector.Degraded && !(e.required && s.Unlisted()) { // else see waitingFor
			all = append(all, fmt.Sprintf("upstream %s is degraded since %s: %s", e.name, s.Since.UTC().Format(time.RFC3339), why(s)))
		}
		open, halfOpen := c.health.Breakers()
		if open.Sessions > 0 {
			all = append(all, fmt.Sprintf("upstream %s fails calls at once: its circuit breaker is open in %s, since %s",
				e.name, sessionCount(open.Sessions), open.Since.UTC().Format(time.RFC3339)))
		}
		if halfOpen.Sessions > 0 {
			all = append(all, fmt.Sprintf("upstream %s is tried with the next call: its circuit breaker opened at %s and is half-open in %s",
				e.name, halfOpen.Since.UTC().Format(time.RFC3339), sessionCount(halfOpen.Sessions)))
		}
	}
	return all
}

func sessionCount(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}

// failingParts returns the store that is away, the issuers whose keys cannot be fetched, a certificate that cannot be
// renewed and the upstreams whose TLS files cannot be used any more, one sentence each.
func (g *Gateway) failingParts() []string {
	var all []string
	if g.auth != nil {
		all = g.auth.Failing()
	}
	for _, text := range []string{g.failingStore(), g.failingTLS()} {
		if text != "" {
			all = append(all, text)
		}
	}
	return append(all, g.failingUpstreamTLS()...)
}

func (g *Gateway) isStarted() bool { return isClosed(g.started) }
