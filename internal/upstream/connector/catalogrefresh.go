package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// settle is how long a change of a list waits for further changes of the burst.
	settle = 20 * time.Millisecond
	// announceAfter is when clients are told of a change at the latest, even while the
	// list is still being gathered: they are promised to hear of it within 200 ms.
	announceAfter = 120 * time.Millisecond
	// firstRetry is the pause before a failed list is gathered again. It doubles up to
	// RefreshMin.
	firstRetry = time.Second
	// levelTimeout bounds the request that sets the log level of a server.
	levelTimeout = 10 * time.Second
)

// catalogRefresher keeps the catalog of one conversation fresh, and its log level. It
// belongs to the goroutine of [Connector.Run].
type catalogRefresher struct {
	c    *Connector
	conn protocol.Conn
	h    protocol.Hello

	headers bool  // calls of tools carry some of their parameters in headers
	listed  kinds // lists that the server declares
	told    kinds // of those, the ones with notifications of changes
	failed  [numKinds]error
	useless int // tools that were left out of the last list
	ttl     [numKinds]time.Duration
	retries int

	due      kinds         // lists to gather next without a notification
	when     time.Time     // and when
	earliest time.Time     // failed lists are not gathered before, whatever asks for them
	reached  chan struct{} // a signal that ends the pause before failed lists are gathered; nil for none
	prompted bool          // the signal has ended it

	gathered time.Time // when the last list came
}

// refreshCatalog gathers the catalog of a conversation and keeps it fresh until ctx
// ends. It returns errUnused if nothing needs the conversation any more, and errMoving if
// the server has a better address; then calls find the conversation no longer. A session
// that gathers no lists only keeps its log level. If a conversation before was lost, all
// lists count as changed.
func (c *Connector) refreshCatalog(ctx context.Context, conn protocol.Conn, h protocol.Hello, again bool) error {
	t := &catalogRefresher{c: c, conn: conn, h: h, headers: conn.Traits().HeaderParams}
	for k := range numKinds {
		capability := listings[k].Capability
		if !c.gathersLists() || !protocol.Declares(h.Capabilities, capability) {
			continue
		}
		t.listed |= only(k)
		if protocol.Declares(h.Capabilities, capability, "listChanged") {
			t.told |= only(k)
		}
	}
	quieter := t.setLevel(ctx)
	none := func() kinds { return 0 }
	news := none
	if again { // notifications may have been missed without a conversation
		news = func() kinds { return t.listed }
	}
	if stream := conn.Traits().Stream; stream != nil && t.told != 0 {
		stream.Await(ctx)
	}
	t.refresh(ctx, t.listed, news)
	c.releaseGatherSlot()
	wait, _ := c.o.Health.nextProbe()
	idle := time.NewTimer(wait)
	defer idle.Stop()
	for ctx.Err() == nil {
		var timer, check, passing <-chan time.Time
		var attempt chan struct{}
		if t.due != 0 {
			timer = time.After(time.Until(t.when))
		}
		if t.broken() != 0 {
			attempt = c.signals.attempt
		}
		passed := t.passed()
		if passed != nil {
			passing = time.After(passingCheck)
		}
		if after, rest, ok := c.checkUnused(t.gathered, time.Now()); rest && c.retire(conn) {
			return errUnused
		} else if c.moving.Load() && c.retire(conn) {
			return errMoving
		} else if ok {
			check = time.After(max(after, 0))
		}
		select {
		case <-ctx.Done():
		case <-check:
		case <-c.usage.changed:
		case <-c.signals.logLevel:
			quieter = t.setLevel(ctx)
		case <-quieter:
			quieter = t.setLevel(ctx)
		case <-c.signals.logLevelLost:
			if sync := c.logLevelSync.Load(); sync != nil {
				sync.forget(ctx)
			}
			quieter = t.setLevel(ctx)
		case <-c.signals.missed:
			c.assumeUpdates()
			if t.told != 0 {
				t.refresh(ctx, t.told, none)
			}
		case <-c.signals.lists:
			t.changed(ctx)
		case <-attempt:
			t.when = t.earliest
		case <-t.reached:
			t.when, t.reached, t.prompted = t.earliest, nil, true
		case <-timer:
			t.refresh(ctx, t.due, none)
		case <-passing:
			if passed() {
				t.refresh(ctx, t.due, none)
			}
		case <-idle.C:
			wait, on := c.o.Health.nextProbe()
			if on {
				conn.Probe(protocol.Idle)
			}
			idle.Reset(wait)
		}
	}
	return nil
}

// broken returns the lists that have failed.
func (t *catalogRefresher) broken() (ks kinds) {
	for k, err := range t.failed {
		if err != nil {
			ks |= only(kind(k))
		}
	}
	return ks
}

// passed returns a function that reports whether the reason of a failed list is gone. It is nil if only another attempt can tell.
func (t *catalogRefresher) passed() func() bool {
	for _, err := range t.failed {
		if err == nil {
			continue
		}
		if passed := t.c.passed(err); passed != nil {
			return passed
		}
	}
	return nil
}

// setLevel tells a legacy server the wanted log level, and returns when that has to be
// checked again.
func (t *catalogRefresher) setLevel(ctx context.Context) <-chan time.Time {
	sync := t.c.logLevelSync.Load()
	if sync == nil {
		return nil
	}
	level, until := t.c.wantedLogLevel()
	sync.tell(ctx, level)
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until))
}

// changed gathers the lists that have changed. A burst of notifications is one change. If
// lists change all the time, they are gathered once a second.
func (t *catalogRefresher) changed(ctx context.Context) {
	wait := settle
	if turn := t.c.listTurns.Reserve().Delay(); turn > wait {
		wait = turn
		t.c.exceeded(excessLists)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return
	}
	changed, requested, done := t.c.takeLists()
	defer done()
	announce := time.AfterFunc(announceAfter, func() {
		t.c.update(func(s *state) { s.snapshot.Changes.add(changed) })
	})
	t.refresh(ctx, (changed|requested)&t.listed, func() kinds {
		if !announce.Stop() {
			return 0 // they were announced while the lists were gathered
		}
		return changed
	})
	announce.Stop()
}

// refresh gathers the lists of these kinds at the same time, and publishes the result
// together with the changes that news returns. A list that cannot be gathered keeps its
// last good items.
func (t *catalogRefresher) refresh(ctx context.Context, which kinds, news func() kinds) {
	var got [numKinds]listing
	var failed [numKinds]error
	var wg sync.WaitGroup
	if t.broken()&^which == 0 {
		t.c.signals.forgetReached()
	}
	for k := range numKinds {
		if which.has(k) {
			wg.Go(func() { got[k], failed[k] = list(ctx, t.conn, k, t.c.o.Limits.Timeout) })
		}
	}
	wg.Wait()
	for _, err := range failed {
		if f, ok := errors.AsType[*protocol.CallError](err); ok && f.ConversationClosed {
			<-ctx.Done() // the end of the conversation is about to be noticed
		}
	}
	if ctx.Err() != nil {
		return // the lists did not fail: the conversation is over
	}
	next := t.c.Snapshot()
	next.State, next.Settled, next.Lost, next.Advice = Ready, true, false, ""
	next.Revision, next.Info, next.Capabilities, next.Instructions = t.h.Revision, t.h.Info, t.h.Capabilities, t.h.Instructions
	for k := range numKinds {
		items := k.items(&next.Catalog)
		switch {
		case !t.listed.has(k):
			*items = nil
		case !which.has(k):
		case failed[k] != nil:
			level := zap.WarnLevel
			if was := t.failed[k]; was != nil && was.Error() == failed[k].Error() {
				level = zap.DebugLevel // the same error at every attempt is logged once
			}
			t.failed[k] = failed[k]
			t.c.o.Logger.Log(level, "cannot gather a list", zap.String("method", listings[k].Name),
				zap.String("error", t.c.listDetail(failed[k], failed[k].Error())))
		default:
			t.failed[k], t.ttl[k] = nil, got[k].ttl
			if k == kindTools && t.headers {
				got[k].items = t.usable(got[k].items)
			}
			if !sameItems(*items, got[k].items) {
				*items = got[k].items
			}
		}
	}
	t.setFailed(&next.Failed)
	if next.Reason = next.Failed.reason(); next.Reason != "" {
		next.State, next.Advice = Degraded, next.Failed.advice()
	}
	if t.c.gathersLists() {
		t.c.tools.Store(readTools(next.Catalog.Tools, t.headers))
	}
	changes := news()
	t.c.update(func(s *state) {
		next.Changes = s.snapshot.Changes // only these may have changed meanwhile
		next.Changes.add(changes)
		if next.State != s.snapshot.State {
			next.Since = time.Now()
		}
		s.snapshot = next
	})
	t.gathered = time.Now()
	t.c.gathered.Store(t.gathered.UnixNano())
	t.c.usage.outdated.Store(false)
	t.plan(which)
}

func sameItems(a, b []wire.Raw) bool {
	return slices.EqualFunc(a, b, func(x, y wire.Raw) bool { return bytes.Equal(x, y) })
}

// setFailed sets which lists fail. A list that failed before keeps the time of its first
// failure.
func (t *catalogRefresher) setFailed(lists *FailedLists) {
	for k := range numKinds {
		list := k.failure(lists)
		switch {
		case t.failed[k] == nil:
			*list = FailedList{}
		case list.Reason == "":
			list.Since = time.Now()
			fallthrough
		default:
			reason := ReasonFor(t.failed[k])
			list.Reason = fmt.Sprintf("%s: %s", listings[k].Name, t.c.o.reason(reason))
			// Each attempt has another id at the server. The first one stays, as in the log: it is no news.
			if detail := fmt.Sprintf("%s: %s", listings[k].Name, t.c.listDetail(t.failed[k], reason)); diagnose.WithoutRequest(detail) != diagnose.WithoutRequest(list.Detail) {
				list.Detail = detail
			}
		}
	}
}

// reason says for users why lists could not be gathered, "" if all could.
func (f *FailedLists) reason() string {
	var out []string
	for k := range numKinds {
		if list := k.failure(f); list.Reason != "" {
			out = append(out, list.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// advice says for operators why lists could not be gathered, and what to do about it. Lists that fail in the same way share
// the text.
func (f *FailedLists) advice() string {
	var methods, details []string
	for k := range numKinds {
		method, detail, failed := strings.Cut(k.failure(f).Detail, ": ")
		if !failed {
			continue
		}
		same := func(other string) bool { return diagnose.WithoutRequest(other) == diagnose.WithoutRequest(detail) }
		if i := slices.IndexFunc(details, same); i >= 0 {
			methods[i] += ", " + method
		} else {
			methods, details = append(methods, method), append(details, detail)
		}
	}
	for i, method := range methods {
		details[i] = method + ": " + details[i]
	}
	return plaintext.Truncate(strings.Join(details, "; "), diagnose.MaxText)
}

// plan decides which lists to gather next without a notification, and when, after some
// kinds were gathered. Failed lists come soon, or when the server wants. An answer to a
// call makes them come at once, but only once in two pauses: the list may be all that
// fails. Lists without notifications of changes come when they are stale, at most every
// RefreshMin, and up to a fifth later, so that not all upstreams are asked at the same
// time.
func (t *catalogRefresher) plan(gathered kinds) {
	var stale kinds
	var later time.Duration // that the server asks for
	broken, reached := t.broken(), chan struct{}(nil)
	wait := maxTTL
	for k := range numKinds {
		switch {
		case t.failed[k] != nil:
			later = max(later, retryAfter(t.failed[k]))
			if !t.prompted && !lacksCredentials(t.failed[k]) {
				reached = t.c.signals.reached
			}
		case t.listed.has(k) && !t.told.has(k):
			stale |= only(k)
			wait = min(wait, t.ttl[k])
		}
	}
	switch {
	case broken != 0 && gathered&broken == 0:
		t.due = broken // and the pause goes on
		return
	case broken != 0:
		t.due, t.earliest = broken, time.Now().Add(max(later, protocol.AttemptGap))
		t.when = time.Now().Add(max(later, min(firstRetry<<min(t.retries, 10), t.c.o.Limits.RefreshMin)))
		t.retries++
	case gathered&t.due != 0 || t.due == 0 || t.retries > 0:
		wait = max(wait, t.c.o.Limits.RefreshMin)
		t.due = stale
		t.when = time.Now().Add(wait + rand.N(wait/5))
		t.retries = 0
	}
	t.reached, t.prompted = reached, false
}
