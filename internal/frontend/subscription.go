package frontend

import (
	"maps"
	"slices"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// subscription is what one subscriptions/listen request of a modern client has
// asked for.
type subscription struct {
	id wire.ID // of the request, which every message carries
	// who and client made the request.
	who    *call.Principal
	client *call.Client
	lists  stream.ListChanges
	stream *stream.Stream
	// shared says that the stream carries other messages too, as stdio does: the
	// end of the subscription is not the end of the stream.
	shared bool

	resources []string // those that are subscribed to, in the order of the request
	tasks     []string // those that are watched
	cancels   []func() // each takes one resource or task back

	mu    sync.Mutex
	state uint8                // of the acknowledgement
	early stream.Notifications // updates that came before it
}

// The states of a subscription.
const (
	unacknowledged uint8 = iota
	open
	over
)

// acknowledge sends the acknowledgement, before anything that the subscription
// brings.
func (sub *subscription) acknowledge() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.stream.Send(sub.acknowledgement())
	sub.state = open
	if !sub.early.IsEmpty() {
		sub.stream.Notify(sub.id, sub.early)
		sub.early = stream.Notifications{}
	}
}

// update tells the client that a resource has changed.
func (sub *subscription) update(u stream.ResourceUpdate) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch sub.state {
	case unacknowledged:
		sub.early.AddUpdate(u)
	case open:
		sub.stream.Notify(sub.id, stream.UpdateOf(u))
	}
}

// close takes the subscriptions to resources back. Nothing comes of them any
// more when it has returned. It may be called more than once.
func (sub *subscription) close() {
	sub.mu.Lock()
	sub.state, sub.early = over, stream.Notifications{}
	sub.mu.Unlock()
	for _, cancel := range sub.cancels {
		cancel()
	}
}

// subscriptionTo reads the params of a listen request. It reports false when
// they lack the filter.
func parseSubscription(params wire.Raw, id wire.ID) (*subscription, bool) {
	filter := wire.ValueOf(params).Get("notifications")
	sub := &subscription{id: id}
	for i, name := range listChangeNames {
		if filter.Get(name).Bool() {
			sub.lists |= 1 << i
		}
	}
	return sub, filter.Kind() == '{'
}

// listChangeNames are the members of a filter that ask for list changes, in the
// order of the bits of changes.
var listChangeNames = [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

var errNoFilter = wire.Errorf(wire.CodeInvalidParams, "invalid params: subscriptions/listen needs the object notifications")

// acknowledged returns the first message of the subscription, which names what
// is honored (2026-07-28, basic/patterns/subscriptions, "Acknowledgment").
func (sub *subscription) acknowledgement() []byte {
	filter := wire.Raw(`{}`)
	for i, name := range listChangeNames {
		if sub.lists&(1<<i) != 0 {
			filter = wire.SetMember(filter, name, wire.Raw("true"))
		}
	}
	if len(sub.resources) > 0 {
		filter = wire.SetMember(filter, "resourceSubscriptions", stringArray(sub.resources))
	}
	if len(sub.tasks) > 0 {
		filter = wire.SetMember(filter, "taskIds", stringArray(sub.tasks))
	}
	m := wire.Message{Method: wire.NoteAcknowledged, Params: wire.SetMember(stream.SubscriptionParams(sub.id), "notifications", filter)}
	return m.Append(nil)
}

// end tells the client that the subscription is over: by the result of its
// request, and where the stream goes on, by a notification too (2026-07-28,
// basic/patterns/subscriptions, "Graceful Closure", and basic/patterns/cancellation).
func (sub *subscription) finish() {
	m := wire.Message{ID: sub.id, Result: append(wire.Raw(`{"resultType":"complete",`), stream.SubscriptionParams(sub.id)[1:]...)}
	result := m.Append(nil)
	if !sub.shared {
		sub.stream.Finish(result)
		return
	}
	sub.stream.Send(result)
	sub.stream.Send(cancelledNote(sub.id))
}

// cancelledNote is the notification that a request is cancelled.
func cancelledNote(id wire.ID) []byte {
	m := wire.Message{Method: wire.NoteCancelled, Params: append(id.Append(wire.Raw(`{"requestId":`)), '}')}
	return m.Append(nil)
}

// subscriptionSet is the set of subscriptions that are open. The zero set is
// ready for use.
type subscriptionSet struct {
	mu  sync.Mutex
	set map[*subscription]struct{}
}

// add takes a subscription in and acknowledges it, before anything that it
// brings.
func (s *subscriptionSet) add(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[*subscription]struct{})
	}
	s.set[sub] = struct{}{}
	sub.acknowledge()
}

// remove forgets a subscription and closes it. It reports whether it was there.
func (s *subscriptionSet) remove(sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.set[sub]
	delete(s.set, sub)
	sub.close()
	return there
}

func (s *subscriptionSet) listChanged(of func(*call.Principal, *call.Client) stream.ListChanges) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.set))
	s.mu.Unlock()
	for _, sub := range all {
		c := of(sub.who, sub.client) & sub.lists
		s.mu.Lock()
		if _, there := s.set[sub]; there && c != 0 {
			sub.stream.Notify(sub.id, stream.Notifications{Lists: c})
		}
		s.mu.Unlock()
	}
}

// end ends all subscriptions.
func (s *subscriptionSet) end() { s.endIf(func(string) bool { return true }) }

// endOf ends the subscriptions of the principals with these keys.
func (s *subscriptionSet) endIf(gone func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.set {
		if gone(keyOf(sub.who)) {
			sub.close()
			sub.finish()
			delete(s.set, sub)
		}
	}
}
