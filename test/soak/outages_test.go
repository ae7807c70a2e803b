package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// lazyConfig has an upstream started when it is called. failingConfig has the circuit breaker open soon and for a short time.
const (
	lazyConfig    = "    start: lazy\n"
	failingConfig = "    timeout: 3s\n    breaker: {failures: 3, open: 200ms}\n"
)

// idleStop is after how long lazy upstreams are stopped: sooner than a configuration may say, so that many calls meet the end of one.
const idleStop = 100 * time.Millisecond

// codeInternal is the error code of calls that the upstream did not answer.
const codeInternal = -32603

// risk calls a failing upstream, unless many clients do that already. It reports whether it did.
func (c *client) risk() bool {
	select {
	case c.risks <- struct{}{}:
		defer func() { <-c.risks }()
	default:
		return false // clients of upstreams that hang must not keep all others from calling
	}
	if c.revision == legacy && c.session == "" {
		c.open(context.Background())
	}
	to := c.failing[c.rand.IntN(len(c.failing))]
	c.persist(to, c.pick("", "p1", "p3", "w1"), 20)
	return true
}

// unavailable is the data of an error about an upstream.
type unavailable struct {
	Upstream, Reason string
	Retryable        *bool
	RetryAfter       float64
}

// persist makes a call, and sends it again, so many times at most, as long as the gateway says that the server has not begun it. The server reports a
// call that it receives twice.
func (c *client) persist(to *upstream, script string, again int) {
	for k, tries := c.newCall(to, script), 0; ; tries++ {
		a := c.once(k)
		if len(a.answers) != 1 || a.answers[0].Error == nil {
			if tries > 0 {
				k.epoch = -1 // an outage explains the failures before
			}
			c.judge(k, a)
			return
		}
		fault := a.answers[0].Error
		var data unavailable
		if err := json.Unmarshal(fault.Data, &data); err != nil || fault.Code != codeInternal || data.Upstream != to.name || data.Retryable == nil || data.Reason == "" {
			c.violation("call %s (%s) failed: %v", k.token, to.name, fault)
			return
		}
		if !k.disturbed() {
			c.violation("call %s (%s) failed without an outage: %v", k.token, to.name, fault)
			return
		}
		to.failures.Add(1)
		if strings.Contains(data.Reason, "circuit breaker") {
			c.refusedAtOnce.Add(1)
			if !*data.Retryable || data.RetryAfter == 0 {
				c.violation("call %s (%s) was refused for good: %v", k.token, to.name, fault)
			}
		}
		if !*data.Retryable || tries == again {
			c.failed.Add(1)
			return
		}
		c.repeated.Add(1)
		time.Sleep(50 * time.Millisecond) // a client that is less patient than it should be
	}
}

// once sends a call without questions once, and returns its messages.
func (c *client) once(k *call) *attempt {
	if c.revision == modern {
		return c.try(context.Background(), k, "", nil)
	}
	a := &attempt{call: k, id: nextID()}
	resp, err := c.send(context.Background(), "tools/call", "", request(a.id, "tools/call", k.legacyParams()))
	if err == nil {
		err = events(resp, func(e event) bool { a.take(c, e); return true })
		resp.Body.Close()
	}
	if err != nil {
		c.violation("call %s (%s): %v", k.token, k.to.name, err)
	}
	return a
}

// disrupt breaks failing upstreams in turn, each with all its faults, until over is closed, and each of them once at least.
func (s *soak) disrupt(over <-chan struct{}) {
	c, turn := s.client(5000, modern), 0
	next := func() {
		u := s.failing[turn%len(s.failing)]
		kinds := httpFaults
		if u.http == nil {
			kinds = stdioFaults
		}
		c.outage(u, kinds[turn/len(s.failing)%len(kinds)])
		turn++
	}
	s.every(s.outageEvery, over, next)
	for turn < len(s.failing) && s.bad.Load() == 0 {
		next()
	}
}

// outage breaks an upstream until the fault has had its effect, and waits until the upstream is back.
func (c *client) outage(u *upstream, kind string) {
	before, err := c.trips(u)
	if err != nil {
		c.violation("%v", err)
		return
	}
	u.epoch.Add(1)
	defer u.epoch.Add(1)
	if err := u.setFault(kind); err != nil {
		c.violation("%s: %v", u.name, err)
		return
	}
	failures := u.failures.Load()
	if !within(func() bool {
		c.persist(u, "", 0)
		trips, err := c.trips(u)
		return err == nil && (trips > before || !opening[kind] && (u.failures.Load() > failures+3 || kind == faultTwice))
	}) {
		c.violation("%s: the fault %s has not opened the circuit breaker", u.name, kind)
	}
	if err := u.setFault(""); err != nil {
		c.violation("%s: %v", u.name, err)
	}
	for _, c := range c.everywhere() {
		if !within(func() bool {
			a := c.once(c.newCall(u, ""))
			return len(a.answers) == 1 && a.answers[0].Error == nil
		}) {
			c.violation("%s is not available again after the fault %s", u.name, kind)
		}
	}
}

// trips returns how often the circuit breaker of an upstream has opened.
func (s *soak) trips(u *upstream) (float64, error) {
	all, err := s.gauges("upstream_breaker_trips_total")
	return all[fmt.Sprintf("mcp_gateway_upstream_breaker_trips_total{upstream=%q}", u.name)], err
}

// wantFaults asserts that the circuit breakers opened and are closed again, that the faults happened, and that lazy upstreams were started and stopped.
func (s *soak) wantFaults(t *testing.T) {
	t.Helper()
	open, err := s.gauges("upstream_breaker_state")
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range open {
		if n != 0 {
			t.Errorf("%s is %v at the end", name, n)
		}
	}
	for _, u := range s.failing {
		trips, err := s.trips(u)
		if err != nil {
			t.Fatal(err)
		}
		faults, err := u.events()
		if err != nil {
			t.Fatal(err)
		}
		delete(faults, eventBegun)
		t.Logf("%s: the circuit breaker opened %v times; %v", u.name, trips, faults)
		delete(faults, eventStart)
		delete(faults, eventStop)
		if trips == 0 || len(faults) == 0 {
			t.Errorf("%s: the circuit breaker opened %v times, and the faults were %v: the run proves too little", u.name, trips, faults)
		}
	}
	for _, u := range s.lazy {
		seen, err := u.events()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v", u.name, seen)
		if starts, least := int64(seen[eventStart]), s.count.Load()/4000; starts < max(least, 2) {
			t.Errorf("%s was started %d times, want %d at least: the run proves too little", u.name, starts, least)
		}
	}
}
