package session

import (
	"maps"
	"slices"
	"sync"
)

// MaxSubscriptions bounds the resources that one session subscribes to.
const MaxSubscriptions = 1000

// subscriptions are the resources that a session has subscribed to.
type subscriptions struct {
	mu    sync.Mutex
	ended bool
	byURI map[string]func() // each cancels the subscription
	// wanted are resources that the client has subscribed to at another replica, without a
	// subscription here.
	wanted map[string]struct{}
	// restoring says that wanted subscriptions are being made, and more that there may be
	// others since.
	restoring, more bool
}

// full reports whether the session has as many subscriptions as it may. The caller holds mu.
func (r *subscriptions) full() bool { return len(r.byURI)+len(r.wanted) >= MaxSubscriptions }

// IsSubscribed reports whether the session has a subscription to uri, and whether it
// has as many subscriptions as it may.
func (s *Session) IsSubscribed(uri string) (subscribed, full bool) {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	_, wanted := r.wanted[uri]
	return r.byURI[uri] != nil, !wanted && r.full()
}

// AddSubscription keeps a subscription until Unsubscribe or the end of the session,
// which call cancel. If the session already has one for uri, it calls cancel immediately.
// If the session has ended, it does so too and returns ErrEnded. cancel must not
// block.
func (s *Session) AddSubscription(uri string, cancel func()) error {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		cancel()
		return ErrEnded
	}
	r.add(uri, cancel)
	return nil
}

// add keeps a subscription, or calls cancel if there is one for uri. The caller holds mu.
func (r *subscriptions) add(uri string, cancel func()) {
	delete(r.wanted, uri)
	if r.byURI[uri] != nil {
		cancel()
		return
	}
	if r.byURI == nil {
		r.byURI = make(map[string]func())
	}
	r.byURI[uri] = cancel
}

// Unsubscribe cancels the subscription to uri, if there is one.
func (s *Session) Unsubscribe(uri string) {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.wanted, uri)
	if cancel := r.byURI[uri]; cancel != nil {
		delete(r.byURI, uri)
		cancel()
	}
}

// want notes a subscription that the client has made at another replica.
func (r *subscriptions) want(uri string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.byURI[uri] != nil || r.full() {
		return
	}
	if r.wanted == nil {
		r.wanted = make(map[string]struct{})
	}
	r.wanted[uri] = struct{}{}
}

// BeginRestore returns the resources that the client has subscribed to at another replica, for the
// caller to subscribe to, and to pass to AddRestored. If there are some, EndRestore has to follow.
// Until then other callers get none.
func (s *Session) BeginRestore() []string {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restoring {
		r.more = true
		return nil
	}
	r.restoring = len(r.wanted) > 0
	return slices.Collect(maps.Keys(r.wanted))
}

// EndRestore ends what BeginRestore began. It reports whether subscriptions were added meanwhile.
func (s *Session) EndRestore() bool {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	again := r.more
	r.restoring, r.more = false, false
	return again
}

// AddRestored is AddSubscription for a resource that BeginRestore has returned. It reports false, and
// calls cancel, if the client has unsubscribed or subscribed itself meanwhile, or the session has
// ended.
func (s *Session) AddRestored(uri string, cancel func()) bool {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, wanted := r.wanted[uri]; !wanted {
		cancel()
		return false
	}
	r.add(uri, cancel)
	return true
}

// end cancels all subscriptions.
func (r *subscriptions) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, cancel := range r.byURI {
		cancel()
	}
	r.byURI, r.wanted = nil, nil
}
