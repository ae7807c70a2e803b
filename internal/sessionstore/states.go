package sessionstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/store"
	"mcpgateway/internal/wire"
)

const (
	// timeout bounds each access to the store, for as long as a request waits for it.
	timeout = 500 * time.Millisecond
	// maxURI bounds the URIs that are taken from the store, in bytes.
	maxURI = 8 << 10
)

// The fields of a session. Each other field is a subscription: its name is a digest of the URI, because
// names of fields are not secret.
const (
	fieldEnded = "ended"
	fieldLevel = "level"
)

// maxFields bounds the fields of one session.
const maxFields = session.MaxSubscriptions + 2

// KindChanged is the kind of the notes about changes of sessions, see [Note].
const KindChanged = "session"

// Peers are the other replicas.
type Peers interface {
	// Tell passes a note to all other replicas, in the background. It is lost if the store is away.
	Tell(kind string, note []byte)
	// TellNow is Tell, and returns when they have got the note, as far as that takes little time.
	TellNow(ctx context.Context, kind string, note []byte)
}

// States is a session.Shared in a store.
type States struct {
	store store.Store
	peers Peers
	life  time.Duration

	unwritten unwritten
}

// NewStates returns States in a store. A session that no replica uses for idle is forgotten. peers are
// notified of changes; nil notifies no replica.
func NewStates(s store.Store, idle time.Duration, peers Peers) *States {
	return &States{store: s, peers: peers, life: 2 * max(idle, time.Second)}
}

func keyOf(id string) store.Key { return store.Key{Kind: "session", Name: id} }

// fieldOf returns the name of the field of a subscription.
func fieldOf(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Load implements session.Shared.
func (s *States) Load(ctx context.Context, id string) (session.State, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	fields, err := s.store.Fields(ctx, keyOf(id))
	if err != nil {
		return session.State{}, err
	}
	var st session.State
	for name, value := range fields {
		switch {
		case name == fieldEnded:
			st.Ended = true
		case name == fieldLevel:
			st.Level, _ = wire.ParseLevel(string(value))
		case len(value) <= maxURI && name == fieldOf(string(value)):
			st.URIs = append(st.URIs, string(value))
		}
	}
	return st, nil
}

// Change implements session.Shared. A change that the store does not take is kept, and written by Run.
func (s *States) Change(ctx context.Context, id string, expires time.Time, c session.Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // a client that has gone has still made the change
	defer cancel()
	var err error
	if s.unwritten.has(id) {
		err = errWaits
	} else {
		err = s.change(ctx, id, expires, c)
	}
	if err != nil && !isFinal(err) {
		s.unwritten.add(id, expires, c)
	}
	s.tell(ctx, id, c)
	return err
}

// isFinal reports whether a change that failed with this error would fail again, though the store works.
func isFinal(err error) bool { return errors.Is(err, errFull) || errors.Is(err, store.ErrWrongType) }

// errWaits is for a change that must not reach the store before an earlier one.
var errWaits = errors.New("an earlier change of the session waits for the store")

// tell tells the other replicas of a change.
func (s *States) tell(ctx context.Context, id string, c session.Change) {
	if s.peers == nil {
		return
	}
	note, err := json.Marshal(changeNote{id, c})
	if err != nil {
		return // a change has only texts and numbers
	}
	// A client that has ended its session may not use it anywhere, and its next call has the level that it has set.
	if c.Ended || c.Level != wire.LevelNone {
		s.peers.TellNow(ctx, KindChanged, note)
	} else {
		s.peers.Tell(KindChanged, note)
	}
}

func (s *States) change(ctx context.Context, id string, expires time.Time, c session.Change) error {
	key := keyOf(id)
	switch {
	case c.Ended:
		if err := s.store.Delete(ctx, key); err != nil {
			return err
		}
		return s.put(ctx, id, fieldEnded, "", max(time.Until(expires), s.life))
	case c.Level != wire.LevelNone:
		return s.put(ctx, id, fieldLevel, c.Level.String(), s.life)
	case c.Subscribed != "":
		return s.put(ctx, id, fieldOf(c.Subscribed), c.Subscribed, s.life)
	default:
		return s.store.DeleteField(ctx, key, fieldOf(c.Unsubscribed))
	}
}

var errFull = errors.New("the session has too many subscriptions at all replicas together")

func (s *States) put(ctx context.Context, id, field, value string, life time.Duration) error {
	kept, err := s.store.PutField(ctx, keyOf(id), field, []byte(value), maxFields, life)
	if err == nil && !kept {
		err = errFull
	}
	return err
}

// Renew implements session.Shared. It also writes what the store has lost, and leaves what other
// replicas have written.
func (s *States) Renew(ctx context.Context, id string, st session.State) error {
	own := make(map[string]string, len(st.URIs)+1)
	if st.Level != wire.LevelNone {
		own[fieldLevel] = st.Level.String()
	}
	for _, uri := range st.URIs {
		own[fieldOf(uri)] = uri
	}
	read, cancel := context.WithTimeout(ctx, timeout)
	kept, err := s.store.Fields(read, keyOf(id))
	cancel()
	if _, ended := kept[fieldEnded]; err != nil || ended {
		return err
	}
	renewed := false
	for field, value := range own {
		if _, is := kept[field]; is && renewed {
			continue
		}
		write, cancel := context.WithTimeout(ctx, timeout)
		err := s.put(write, id, field, value, s.life)
		cancel()
		if err != nil && !errors.Is(err, errFull) {
			return err
		}
		renewed = true
	}
	return nil
}

// changeNote is a note about a change of a session.
type changeNote struct {
	ID     string         `json:"id"`
	Change session.Change `json:"change"`
}

// Note passes a note of another replica about a session to changed.
func Note(note []byte, changed func(id string, c session.Change)) {
	var n changeNote
	if json.Unmarshal(note, &n) == nil && n.ID != "" {
		changed(n.ID, n.Change)
	}
}
