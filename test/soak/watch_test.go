package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// resourcesEach is the number of resources of each upstream.
const resourcesEach = 3

func (u *upstream) resource(n int) string { return fmt.Sprintf("%s+mem://r/%d", u.name, n) }

// watcher is a client that subscribes to some resources and records their updates.
type watcher struct {
	c      *client
	cancel context.CancelFunc
	done   chan struct{} // closed when the stream has ended

	mu    sync.Mutex
	wants map[string]bool
	heard map[string]int
}

// watch subscribes to about half of all resources.
func (c *client) watch() *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{c: c, cancel: cancel, done: make(chan struct{}), wants: make(map[string]bool), heard: make(map[string]int)}
	for _, u := range c.upstreams {
		for n := range resourcesEach {
			if c.rand.IntN(2) == 0 {
				w.wants[u.resource(n)] = true
			}
		}
	}
	open := make(chan struct{})
	if c.revision == modern {
		go w.listen(ctx, open)
		<-open
		return w
	}
	c.open(ctx)
	go w.readStream(ctx, open)
	<-open
	for uri := range w.wants {
		if _, err := c.ask(ctx, "resources/subscribe", "", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil {
			c.violation("subscribe to %s: %v", uri, err)
		}
	}
	return w
}

// listen is the subscription of a modern client.
func (w *watcher) listen(ctx context.Context, open chan struct{}) {
	defer close(w.done)
	var uris []string
	for uri := range w.wants {
		uris = append(uris, uri)
	}
	list, _ := json.Marshal(uris) // encoding strings cannot fail
	id := nextID()
	resp, err := w.c.send(ctx, "subscriptions/listen", "", request(id, "subscriptions/listen",
		fmt.Sprintf(`{"notifications":{"resourceSubscriptions":%s},%s}`, list, modernMeta("watch", false))))
	if err != nil {
		w.c.violation("listen: %v", err)
		close(open)
		return
	}
	defer resp.Body.Close()
	acknowledged := false
	err = events(resp, func(e event) bool {
		if !acknowledged {
			acknowledged = true
			if e.Method != "notifications/subscriptions/acknowledged" || strings.Count(string(e.Params), "mem://") != len(uris) {
				w.c.violation("of %d subscriptions the server acknowledged %s", len(uris), e.Params)
			}
			close(open)
			return true
		}
		w.take(e)
		return true
	})
	if ctx.Err() == nil {
		w.c.violation("a subscription ended: %v", err)
	}
}

// readStream reads the GET stream of a legacy session. The server may close the connection at any time after an event; the client then
// reconnects to resume (2025-11-25, basic/transports, "Listening for Messages from the Server").
func (w *watcher) readStream(ctx context.Context, open chan struct{}) {
	defer close(w.done)
	last := ""
	for first := true; ; first = false {
		epoch := w.c.storeEpoch()
		resp, err := w.c.get(ctx, "GET", last)
		if first {
			close(open)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.c.violation("the stream of a session: %v", err)
			return
		}
		had := last
		err = events(resp, func(e event) bool {
			if e.id != "" {
				last = e.id
			}
			w.take(e)
			return true
		})
		resp.Body.Close()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && w.c.apartSince(epoch): // another replica cannot serve it now
			time.Sleep(repeatPause)
		case err != nil || last == had: // a resumable stream begins with an event
			w.c.violation("the stream of a session ended: %v", err)
			return
		}
	}
}

func (w *watcher) take(e event) {
	if e.Method == "" && e.ID == nil {
		return // an event without data
	}
	var p struct{ URI string }
	if strings.HasSuffix(e.Method, "/list_changed") {
		return // legacy clients receive every list change, also when an upstream comes up
	}
	if err := json.Unmarshal(e.Params, &p); err != nil || e.Method != "notifications/resources/updated" {
		w.c.violation("a watcher got %s %s", e.Method, e.Params)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.wants[p.URI] {
		w.c.violation("a watcher of %v received an update of %s", w.wants, p.URI)
	}
	w.heard[p.URI]++
}

// count returns the number of updates of a resource, and whether the watcher has subscribed to it.
func (w *watcher) count(uri string) (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard[uri], w.wants[uri]
}

// wantUpdates touches every resource until each of its watchers has received an update.
func (s *soak) wantUpdates(c *client, all []*watcher) {
	for _, u := range s.upstreams {
		for n := range resourcesEach {
			before := make(map[*watcher]int)
			for _, w := range all {
				if heard, wants := w.count(u.resource(n)); wants {
					before[w] = heard
				}
			}
			touched := time.Time{}
			if !within(func() bool {
				if time.Since(touched) > time.Second { // a restarted server may not have the subscriptions yet
					touched = time.Now()
					for _, c := range c.everywhere() { // each has servers on stdio of its own
						c.touch(u, n)
					}
				}
				for w, heard := range before {
					if now, _ := w.count(u.resource(n)); now == heard {
						return false
					}
				}
				return true
			}) {
				for w, heard := range before {
					if now, _ := w.count(u.resource(n)); now == heard {
						s.violation("a %s subscriber of %s received no update", w.c.revision, u.resource(n))
					}
				}
			}
		}
	}
}

// touch makes a resource change.
func (c *client) touch(to *upstream, n int) {
	release := to.enter("")
	defer release()
	k := c.newCall(to, "")
	params := fmt.Sprintf(`"name":%q,"arguments":{"token":%q,"uri":"mem://r/%d"}`, to.name+"__touch", k.token, n)
	if c.revision == modern {
		params += "," + modernMeta(k.token, false)
	}
	raw, err := c.ask(context.Background(), "tools/call", to.name+"__touch", `{`+params+`}`)
	a := &attempt{call: k, answers: []event{{message: message{Result: raw}}}}
	if err != nil {
		a.answers[0].Error = &fault{Message: err.Error()}
	}
	c.judge(k, a)
}
