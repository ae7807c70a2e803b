package session

import "sync"

// MaxSubscriptions bounds the resources that one session subscribes to.
const MaxSubscriptions = 1000

// subscriptions are the resources that a session has subscribed to.
type subscriptions struct {
	mu    sync.Mutex
	ended bool
	byURI map[string]func() // each cancels the subscription
}

// IsSubscribed reports whether the session has a subscription to uri, and whether it
// has as many subscriptions as it may.
func (s *Session) IsSubscribed(uri string) (subscribed, full bool) {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byURI[uri] != nil, len(r.byURI) >= MaxSubscriptions
}

// AddSubscription keeps a subscription until Unsubscribe or the end of the session,
// which call cancel. If the session already has one for uri, it calls cancel at once.
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
	if r.byURI[uri] != nil {
		cancel()
		return nil
	}
	if r.byURI == nil {
		r.byURI = make(map[string]func())
	}
	r.byURI[uri] = cancel
	return nil
}

// Unsubscribe cancels the subscription to uri, if there is one.
func (s *Session) Unsubscribe(uri string) {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.byURI[uri]; cancel != nil {
		delete(r.byURI, uri)
		cancel()
	}
}

// end cancels all subscriptions.
func (r *subscriptions) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, cancel := range r.byURI {
		cancel()
	}
	r.byURI = nil
}
