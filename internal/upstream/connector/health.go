package connector

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// HealthSettings say when a circuit breaker opens, and how often an idle server is probed.
type HealthSettings struct {
	Failures int           // failed calls in a row that open the breaker; 0: it stays closed
	Open     time.Duration // how long calls are refused before one is tried
	Interval time.Duration // how long a server may send nothing before it is probed; 0: it is not
}

// Health is the shared health state of all sessions with one upstream. Each session has its
// own breaker, because the session of one principal may fail while others work. The methods
// may be called concurrently. The breakers of a nil *Health stay closed, and its servers
// are not probed.
type Health struct {
	current atomic.Pointer[HealthSettings]
	lone    atomic.Pointer[loneFailures] // since the last answer in any session; nil for none

	mu     sync.Mutex
	open   map[*breaker]unclosed
	output SkippedOutput // see Skip
}

// NewHealth returns a Health with these settings.
func NewHealth(s HealthSettings) *Health {
	h := &Health{open: make(map[*breaker]unclosed)}
	h.Set(s)
	return h
}

// Set changes the settings for failures and probes from now on. With Failures 0 open
// breakers let the next call through.
func (h *Health) Set(s HealthSettings) { h.current.Store(&s) }

func (h *Health) settings() HealthSettings {
	if h == nil {
		return HealthSettings{}
	}
	return *h.current.Load()
}

// loneFailures says whose sessions had as many failed calls in a row as open a breaker.
type loneFailures struct {
	principal string // of the first of them
	others    bool   // there are those of other principals
}

// failedFor notes that the session of one principal alone had as many failed calls in a row as
// open a breaker. It reports whether the sessions of several principals had, and no session
// had an answer since: then the server fails, and not what one principal sends.
func (h *Health) failedFor(principal string) (several bool) {
	for {
		known, next := h.lone.Load(), &loneFailures{principal: principal}
		if known != nil {
			next.principal, next.others = known.principal, known.others || known.principal != principal
		}
		if h.lone.CompareAndSwap(known, next) {
			return next.others
		}
	}
}

// works notes that the server has answered a call.
func (h *Health) works() {
	if h != nil && h.lone.Load() != nil {
		h.lone.Store(nil)
	}
}

// changed notes the new state of a breaker.
func (h *Health) changed(b *breaker, to breakerState, opened time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to == breakerClosed {
		delete(h.open, b)
	} else {
		h.open[b] = unclosed{to, opened}
	}
}

// unclosed is a breaker that is not closed.
type unclosed struct {
	state  breakerState
	opened time.Time // after it was closed
}

// Breakers are the breakers of an upstream that are in the same state.
type Breakers struct {
	Sessions int
	// Since is when the first of them opened after it was closed. Other sessions may have got
	// answers meanwhile.
	Since time.Time
}

// Breakers returns the breakers that are open, which refuse calls, and those that are
// half-open, which try the next one.
func (h *Health) Breakers() (open, halfOpen Breakers) {
	if h == nil {
		return open, halfOpen
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range h.open {
		of := &open
		if u.state == breakerHalfOpen {
			of = &halfOpen
		}
		of.Sessions++
		if of.Since.IsZero() || u.opened.Before(of.Since) {
			of.Since = u.opened
		}
	}
	return open, halfOpen
}

// settingsCheck is how often a connector looks whether probes were turned on.
const settingsCheck = time.Minute

// nextProbe returns how long to wait before the next probe of an idle server, up to a tenth
// longer than configured, so that not all servers are probed at the same time. on says
// whether servers are probed.
func (h *Health) nextProbe() (wait time.Duration, on bool) {
	interval := h.settings().Interval
	if interval <= 0 {
		return settingsCheck, false
	}
	return interval + rand.N(interval/10+1), true
}
