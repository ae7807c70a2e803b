package frontend

import (
	"maps"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// subscription is one listen stream: what one subscriptions/listen request of a modern
// client asks for.
type subscription struct {
	id        wire.ID // of the request; every message of the subscription carries it
	principal *call.Principal
	client    *call.Client
	opened    time.Time
	lists     stream.ListChanges
	stream    *stream.Stream
	// shared says that the stream carries other messages too, as on stdio, and does not
	// end with the subscription.
	shared bool

	resources []string // with a subscription, in the order of the request
	tasks     []string // watched tasks
	cancels   []func() // each cancels one resource or task

	mu    sync.Mutex
	state uint8                // one of the constants below
	early stream.Notifications // updates that came before the acknowledgement
}

// The states of a subscription.
const (
	unacknowledged uint8 = iota
	open
	over
)

// acknowledge sends the acknowledgement, and then the updates that came early.
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

// close cancels the subscriptions to resources and tasks. None of them delivers
// anything after close has returned. It may be called more than once.
func (sub *subscription) close() {
	sub.mu.Lock()
	sub.state, sub.early = over, stream.Notifications{}
	sub.mu.Unlock()
	for _, cancel := range sub.cancels {
		cancel()
	}
}

// parseSubscription reads the params of a listen request (2026-07-28,
// basic/patterns/subscriptions, "Subscription Filter"). The error names the malformed member.
func parseSubscription(params wire.Raw, id wire.ID) (*subscription, *wire.Error) {
	filter := wire.ValueOf(params).Get("notifications")
	if filter.Kind() != '{' {
		return nil, errNoFilter
	}
	sub := &subscription{id: id, opened: time.Now()}
	for m := range filter.Members() {
		if i := slices.IndexFunc(listChangeNames[:], m.Is); i >= 0 {
			switch m.Value.Kind() {
			case 't':
				sub.lists |= 1 << i
			case 'f':
			default:
				return nil, malformedFilter(listChangeNames[i], "a boolean")
			}
			continue
		}
		for _, name := range []string{memberResources, memberTasks} {
			if m.Is(name) && !isStringArray(m.Value) {
				return nil, malformedFilter(name, "an array of strings")
			}
		}
	}
	return sub, nil
}

// listChangeNames are the members of a filter that ask for list changes, in the order
// of the bits of [stream.ListChanges].
var listChangeNames = [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"}

// The members of a filter that name items.
const (
	memberResources = "resourceSubscriptions"
	memberTasks     = "taskIds"
)

func isStringArray(v wire.Value) bool {
	for el := range v.Elements() {
		if el.Kind() != '"' {
			return false
		}
	}
	return v.Kind() == '['
}

var errNoFilter = wire.Errorf(wire.CodeInvalidParams, "invalid params: subscriptions/listen needs the object notifications")

func malformedFilter(member, want string) *wire.Error {
	return wire.Errorf(wire.CodeInvalidParams, "invalid params: notifications.%s must be %s", member, want)
}

// acknowledgement returns the first message of the subscription, which names the parts
// of the filter that are honored (2026-07-28, basic/patterns/subscriptions,
// "Acknowledgment").
func (sub *subscription) acknowledgement() []byte {
	filter := wire.Raw(`{}`)
	for i, name := range listChangeNames {
		if sub.lists&(1<<i) != 0 {
			filter = wire.SetMember(filter, name, wire.Raw("true"))
		}
	}
	if len(sub.resources) > 0 {
		filter = wire.SetMember(filter, memberResources, wire.Strings(sub.resources))
	}
	if len(sub.tasks) > 0 {
		filter = wire.SetMember(filter, memberTasks, wire.Strings(sub.tasks))
	}
	m := wire.Message{Method: wire.NoteAcknowledged, Params: wire.SetMember(stream.SubscriptionParams(sub.id), "notifications", filter)}
	return m.Append(nil)
}

// finish tells the client that the subscription has ended: by the result of its
// request, and if the stream is shared, also by a notification (2026-07-28,
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

// cancelledNote returns the notification that a request of ours is cancelled.
func cancelledNote(id wire.ID) []byte {
	m := wire.Message{Method: wire.NoteCancelled, Params: append(id.Append(wire.Raw(`{"requestId":`)), '}')}
	return m.Append(nil)
}

// subscriptionSet is the set of open subscriptions. The zero value is an empty set.
type subscriptionSet struct {
	mu  sync.Mutex
	set map[*subscription]struct{}
}

// add adds a subscription and acknowledges it.
func (s *subscriptionSet) add(sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[*subscription]struct{})
	}
	s.set[sub] = struct{}{}
	sub.acknowledge()
}

// remove removes a subscription and closes it. It reports whether it was in the set.
func (s *subscriptionSet) remove(sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.set[sub]
	delete(s.set, sub)
	sub.close()
	return ok
}

func (s *subscriptionSet) listChanged(of func(*call.Principal, *call.Client) stream.ListChanges) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.set))
	s.mu.Unlock()
	for _, sub := range all {
		c := of(sub.principal, sub.client) & sub.lists
		s.mu.Lock()
		if _, ok := s.set[sub]; ok && c != 0 {
			sub.stream.Notify(sub.id, stream.Notifications{Lists: c})
		}
		s.mu.Unlock()
	}
}

// end ends all subscriptions.
func (s *subscriptionSet) end() { s.endIf(func(*call.Principal) bool { return true }) }

// endIf ends the subscriptions of the principals that match.
func (s *subscriptionSet) endIf(match func(*call.Principal) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.set {
		if match(sub.principal) {
			sub.close()
			sub.finish()
			delete(s.set, sub)
		}
	}
}
