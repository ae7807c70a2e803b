package connector

import (
	"bytes"
	"time"

	"mcpgateway/internal/wire"
)

// State is the state of an upstream.
type State uint8

const (
	// Connecting: the first attempt has not ended.
	Connecting State = iota
	// Ready: there is a conversation, and every list was gathered.
	Ready
	// Degraded: there is a conversation, but a list could not be gathered; the last good
	// items are kept.
	Degraded
	// Down: there is no conversation.
	Down
	// Idle: there is no conversation, because nothing needs one. The next use opens one.
	Idle
)

// String returns the name of the state in logs and on pages.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Ready:
		return "ready"
	case Degraded:
		return "degraded"
	case Idle:
		return "idle"
	default:
		return "down"
	}
}

// Snapshot is the state of an upstream, as a connector knows it at one time. It is
// immutable, with everything that it points to.
type Snapshot struct {
	Name  string
	State State
	Since time.Time // when the upstream came into this state
	// Reason says why the upstream is degraded or down, or what is wrong while it
	// connects. It is for users and has no secrets.
	Reason string
	// Advice says in one sentence why the upstream is degraded or down, or does not connect, and what
	// to do about it. It is for operators: it may name addresses and files, and quote the
	// output of the server.
	Advice string
	// Settled says that the first attempt has ended, with or without success.
	Settled bool
	// Lost says that the upstream is down because its conversation ended, and that no
	// attempt has failed since, and no conversation ended before its lists were gathered.
	// Most such servers are back immediately with the same lists.
	Lost bool

	// The following fields are of the last conversation, even if the upstream is down, or
	// of an earlier run if they were remembered. They are empty before the first one.

	Revision     wire.Revision
	Info         wire.Raw // serverInfo, nil when the server gave none
	Capabilities wire.Raw // an object, nil before the first conversation
	Instructions string
	Catalog      Catalog
	Failed       FailedLists
	Changes      Changes
}

// Era returns the era of the conversation, EraUnknown before the first.
func (s *Snapshot) Era() wire.Era { return s.Revision.Era() }

// FailedLists says of each list why it could not be gathered. The items in the catalog are
// then those that came last, or none if none ever came.
type FailedLists struct {
	Tools, Prompts, Resources, Templates FailedList
}

// FailedList says why a list could not be gathered. The zero value is a list that was
// gathered.
type FailedList struct {
	Reason string // for users, without secrets
	Detail string // is Reason with what only operators may read
	Since  time.Time
}

// Up reports whether there is a conversation.
func (s *Snapshot) Up() bool { return s.State == Ready || s.State == Degraded }

// Available reports whether the upstream takes calls: there is a conversation, or the next
// call opens one to an upstream whose catalog is known.
func (s *Snapshot) Available() bool {
	return s.Up() || s.State == Idle || s.State == Connecting && s.Revision != ""
}

// Unlisted reports whether the lists of the conversation fail and no items of the upstream
// are known.
func (s *Snapshot) Unlisted() bool {
	c := &s.Catalog
	return s.State == Degraded && len(c.Tools)+len(c.Prompts)+len(c.Resources)+len(c.Templates) == 0
}

// Catalog has the lists of a server, with all pages, each item unchanged.
type Catalog struct {
	Tools     []wire.Raw
	Prompts   []wire.Raw
	Resources []wire.Raw
	Templates []wire.Raw
}

// Changes counts the notifications of changed lists. Clients are notified of a change even
// if the items stayed the same.
type Changes struct {
	Tools     uint64
	Prompts   uint64
	Resources uint64 // resources and templates
}

// add counts one change of each kind.
func (c *Changes) add(which kinds) {
	if which.has(kindTools) {
		c.Tools++
	}
	if which.has(kindPrompts) {
		c.Prompts++
	}
	if which.has(kindResources) {
		c.Resources++
	}
}

// remember takes what was known of the upstream in an earlier run. The caller is New.
func (c *Connector) remember(known *Snapshot) {
	s := &c.state.snapshot
	s.Revision, s.Info, s.Capabilities, s.Instructions = known.Revision, known.Info, known.Capabilities, known.Instructions
	s.Catalog = known.Catalog
	if c.gathersLists() {
		c.tools.Store(readTools(s.Catalog.Tools, known.Era() == wire.EraModern))
	}
}

// Same reports whether nothing differs that an observer needs. Lists are compared by
// identity: the connector keeps the old slice if the items are the same.
func (s *Snapshot) Same(o *Snapshot) bool {
	same := func(a, b []wire.Raw) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
	return s.State == o.State && s.Reason == o.Reason && (s.State != Connecting || s.Advice == o.Advice) && s.Settled == o.Settled && s.Lost == o.Lost && s.Changes == o.Changes && s.Failed == o.Failed &&
		s.Revision == o.Revision && s.Instructions == o.Instructions &&
		bytes.Equal(s.Info, o.Info) && bytes.Equal(s.Capabilities, o.Capabilities) &&
		same(s.Catalog.Tools, o.Catalog.Tools) && same(s.Catalog.Prompts, o.Catalog.Prompts) &&
		same(s.Catalog.Resources, o.Catalog.Resources) && same(s.Catalog.Templates, o.Catalog.Templates)
}
