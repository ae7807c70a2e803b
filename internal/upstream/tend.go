package upstream

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

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// settle is how long a change of a list waits for others of the same burst.
	settle = 20 * time.Millisecond
	// announceAfter is when clients hear of a change at the latest, also while
	// the list is still being gathered: with settle and what the way to them
	// takes within the 200 ms that they are promised.
	announceAfter = 120 * time.Millisecond
	// firstRetry is the pause before a failed list is tried again. It doubles
	// up to RefreshMin.
	firstRetry = time.Second
	// levelTimeout bounds telling a server which log messages are wanted.
	levelTimeout = 10 * time.Second
)

// tender keeps the catalog of one conversation fresh. It belongs to the
// connector's loop.
type tender struct {
	c    *Connector
	conn protocol.Conn
	h    protocol.Hello

	headers bool  // calls of tools carry some of their parameters in headers
	listed  kinds // what the server declares
	told    kinds // of those, what it tells changes of
	failed  [numKinds]error
	useless int // tools that were left out of the last list
	ttl     [numKinds]time.Duration
	retries int

	due  kinds     // what is to be gathered next without being asked
	when time.Time // and when
}

// tend gathers the catalog of a conversation and keeps it fresh until ctx ends.
// In a session that is not everybody's it gathers nothing, unless that is there to
// gather the lists of a principal.
// If there was a conversation before, all lists count as changed.
func (c *Connector) tend(ctx context.Context, conn protocol.Conn, h protocol.Hello, again bool) {
	t := &tender{c: c, conn: conn, h: h, headers: conn.Traits().HeaderParams}
	for k := range numKinds {
		capability := listings[k].Capability
		if !c.o.persona.gatherer() || !protocol.Declares(h.Capabilities, capability) {
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
	if again { // while there was no conversation, nobody told of changes
		news = func() kinds { return t.listed }
	}
	if stream := conn.Traits().Stream; stream != nil && t.told != 0 {
		stream.Await(ctx)
	}
	t.refresh(ctx, t.listed, news)
	for ctx.Err() == nil {
		var timer <-chan time.Time
		if t.due != 0 {
			timer = time.After(time.Until(t.when))
		}
		select {
		case <-ctx.Done():
		case <-c.loudness.changed:
			quieter = t.setLevel(ctx)
		case <-quieter:
			quieter = t.setLevel(ctx)
		case <-c.box.silenced:
			if v := c.volume.Load(); v != nil {
				v.forget(ctx)
			}
			quieter = t.setLevel(ctx)
		case <-c.box.gap:
			c.supposeUpdates()
			if t.told != 0 {
				t.refresh(ctx, t.told, none)
			}
		case <-c.box.full:
			t.changed(ctx)
		case <-timer:
			t.refresh(ctx, t.due, none)
		}
	}
}

// setLevel tells a legacy server which log messages are wanted, and returns when
// that has to be looked at again.
func (t *tender) setLevel(ctx context.Context) <-chan time.Time {
	level, until := t.c.loudness.now()
	v := t.c.volume.Load()
	if v == nil {
		return nil
	}
	v.tell(ctx, level)
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until))
}

// changed gathers what the server says has changed. A burst is one change.
func (t *tender) changed(ctx context.Context) {
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return
	}
	changed, wanted, done := t.c.box.take()
	defer done()
	announce := time.AfterFunc(announceAfter, func() {
		t.c.update(func(s *Snapshot) { s.Changes.add(changed) })
	})
	t.refresh(ctx, (changed|wanted)&t.listed, func() kinds {
		if !announce.Stop() {
			return 0 // they were announced while the lists were gathered
		}
		return changed
	})
	announce.Stop()
}

// refresh gathers the lists of these kinds, all at once, and publishes what
// came of it together with the changes that news returns. A list that cannot be
// gathered keeps its last good items.
func (t *tender) refresh(ctx context.Context, which kinds, news func() kinds) {
	var got [numKinds]listing
	var failed [numKinds]error
	var wg sync.WaitGroup
	for k := range numKinds {
		if which.has(k) {
			wg.Go(func() { got[k], failed[k] = list(ctx, t.conn, k, t.c.o.Timeout) })
		}
	}
	wg.Wait()
	for _, err := range failed {
		if f, ok := errors.AsType[*protocol.CallError](err); ok && f.ConversationClosed {
			<-ctx.Done() // which is about to be noticed by whoever ends ctx
		}
	}
	if ctx.Err() != nil {
		return // the conversation is over; that is not the lists' fault
	}
	next := t.c.Snapshot()
	next.State, next.Settled, next.Lost = Ready, true, false
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
				level = zap.DebugLevel // the same again at every attempt is no news
			}
			t.failed[k] = failed[k]
			t.c.o.Logger.Log(level, "cannot gather a list", zap.String("method", listings[k].Name), t.c.o.why(failed[k]))
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
	if next.Reason = t.reason(); next.Reason != "" {
		next.State = Degraded
	}
	if t.c.o.persona.gatherer() {
		t.c.tools.Store(readTools(next.Catalog.Tools, t.headers))
	}
	t.c.update(func(s *Snapshot) {
		next.Changes = s.Changes // which alone may have moved meanwhile
		next.Changes.add(news())
		if next.State != s.State {
			next.Since = time.Now()
		}
		*s = next
	})
	t.plan(which)
}

func sameItems(a, b []wire.Raw) bool {
	return slices.EqualFunc(a, b, func(x, y wire.Raw) bool { return bytes.Equal(x, y) })
}

// reason says which lists could not be gathered and why, "" when all could.
func (t *tender) reason() string {
	var out []string
	for k, err := range t.failed {
		if err != nil {
			out = append(out, fmt.Sprintf("%s: %s", listings[k].Name, t.c.o.reason(downReason(err))))
		}
	}
	return strings.Join(out, "; ")
}

// plan decides, after the lists of some kinds were gathered, which are to be
// gathered next without being asked, and when. Those are lists that failed,
// soon, and lists whose changes the server does not tell of: not before they
// are stale, and not more often than RefreshMin, up to a fifth later, so that
// not all upstreams are asked at once.
func (t *tender) plan(gathered kinds) {
	var broken, stale kinds
	wait := maxTTL
	for k := range numKinds {
		switch {
		case t.failed[k] != nil:
			broken |= only(k)
		case t.listed.has(k) && !t.told.has(k):
			stale |= only(k)
			wait = min(wait, t.ttl[k])
		}
	}
	switch {
	case broken != 0:
		t.due = broken
		t.when = time.Now().Add(min(firstRetry<<min(t.retries, 10), t.c.o.RefreshMin))
		t.retries++
	case gathered&t.due != 0 || t.due == 0 || t.retries > 0:
		wait = max(wait, t.c.o.RefreshMin)
		t.due = stale
		t.when = time.Now().Add(wait + rand.N(wait/5))
		t.retries = 0
	}
}
