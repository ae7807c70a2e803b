package session

import (
	"context"
	"time"

	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Shared keeps the shared state of the sessions with sealed ids. Its methods are called
// concurrently, and return soon, also when the store does not answer: then with an error.
type Shared interface {
	// Load returns what is known of a session, the zero value if nothing is.
	Load(ctx context.Context, id string) (State, error)
	// Change keeps a change of a session, whose id expires at this time, and tells the other
	// replicas. With an error both happens later.
	Change(ctx context.Context, id string, expires time.Time, c Change) error
	// Renew extends the life of the state of a session in use. It notifies no replica.
	Renew(ctx context.Context, id string, st State) error
}

// State is the shared state of a session.
type State struct {
	Ended bool       // the session was ended for good
	Level wire.Level // LevelNone if the client has set none
	URIs  []string   // of the resources that the client subscribes to
}

// Change is a change of a session's state: one of its members is set.
type Change struct {
	Ended        bool       `json:"ended,omitempty"`
	Level        wire.Level `json:"level,omitempty"`
	Subscribed   string     `json:"subscribed,omitempty"`
	Unsubscribed string     `json:"unsubscribed,omitempty"`
}

// IsSealed reports whether other replicas can open the id of the session.
func (s *Session) IsSealed() bool { return !s.Expires.IsZero() }

// BeginLoad reports whether the caller has to load the state of the session: once, if another
// process may have opened it, and again after LoadFailed.
func (s *Session) BeginLoad() bool {
	return s.adopted && !s.loading.Load() && s.loading.CompareAndSwap(false, true)
}

// LoadFailed says that the state of the session could not be loaded.
func (s *Session) LoadFailed() { s.loading.Store(false) }

// State returns what other replicas have to know of the session.
func (s *Session) State() State {
	r := &s.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	st := State{Level: s.LogLevel()}
	for uri := range r.byURI {
		st.URIs = append(st.URIs, uri)
	}
	for uri := range r.wanted {
		st.URIs = append(st.URIs, uri)
	}
	return st
}

// Apply makes a change that the client has made at another replica. A subscription is only noted,
// see [Session.Wanted]. The table ends sessions, see [Table.CloseID].
func (s *Session) Apply(c Change) {
	if c.Level != wire.LevelNone {
		s.SetLogLevel(c.Level)
	}
	if c.Unsubscribed != "" {
		s.Unsubscribe(c.Unsubscribed)
	}
	if c.Subscribed != "" {
		s.resources.want(c.Subscribed)
	}
}

// HasStream reports whether the session has a stream that belongs to no call.
func (s *Session) HasStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams) > 0
}

// NotifyAllUpdated makes each subscribed resource count as updated, because updates may have been lost.
func (s *Session) NotifyAllUpdated() {
	for _, uri := range s.State().URIs {
		s.NotifyUpdate(stream.ResourceUpdate{Subscribed: uri, URI: uri, Params: wire.SetMember(wire.Raw(`{}`), "uri", wire.String(uri))})
	}
}
