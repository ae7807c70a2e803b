package upstream

import (
	"bytes"
	"time"

	"mcpgateway/internal/wire"
)

// State is how an upstream is.
type State uint8

const (
	// Connecting: the first attempt has not ended.
	Connecting State = iota
	// Ready: there is a conversation, and every list was gathered.
	Ready
	// Degraded: there is a conversation, but a list could not be gathered; its
	// items are the last good ones.
	Degraded
	// Down: there is no conversation.
	Down
)

// String returns the state as it stands in logs and on pages.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Ready:
		return "ready"
	case Degraded:
		return "degraded"
	default:
		return "down"
	}
}

// Snapshot is what a connector knew of its upstream at one moment. It and all
// that it points to is immutable.
type Snapshot struct {
	Name  string
	State State
	Since time.Time // when the upstream came into this state
	// Reason is why it is degraded or down, or what is amiss while it connects; for
	// users, without secrets.
	Reason string
	// Advice is why it is down, or seems to come to nothing while it connects, and what
	// to do about it, in one sentence: for those who run the gateway, since it may name
	// addresses and files, and tell what the server printed.
	Advice string
	// Settled says that the first attempt has ended, well or not.
	Settled bool
	// Lost says that the upstream is down because its conversation ended, and that
	// no attempt to open another has failed since, nor one that was opened come to
	// its end before its lists were gathered: most servers are back at once, with
	// what they had.
	Lost bool

	// What follows is of the last conversation, also when the upstream is down,
	// and empty before the first.

	Revision     wire.Revision
	Info         wire.Raw // serverInfo, nil when the server gave none
	Capabilities wire.Raw // an object, nil before the first conversation
	Instructions string
	Catalog      Catalog
	Changes      Changes
}

// Era returns the era of the conversation, EraUnknown before the first.
func (s *Snapshot) Era() wire.Era { return s.Revision.Era() }

// Up reports whether there is a conversation.
func (s *Snapshot) Up() bool { return s.State == Ready || s.State == Degraded }

// Catalog is what a server lists, all pages of it, each item as it came.
type Catalog struct {
	Tools     []wire.Raw
	Prompts   []wire.Raw
	Resources []wire.Raw
	Templates []wire.Raw
}

// Changes counts how often the server said that a list has changed. A count
// that grew while the items stayed the same is a change all the same that
// clients are to hear of.
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

// Same reports whether nothing differs that anybody could want to hear of.
// Lists are compared by identity: who gathers them keeps the old slice where
// the items are the same.
func (s *Snapshot) Same(o *Snapshot) bool {
	same := func(a, b []wire.Raw) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
	return s.State == o.State && s.Reason == o.Reason && s.Settled == o.Settled && s.Lost == o.Lost && s.Changes == o.Changes &&
		s.Revision == o.Revision && s.Instructions == o.Instructions &&
		bytes.Equal(s.Info, o.Info) && bytes.Equal(s.Capabilities, o.Capabilities) &&
		same(s.Catalog.Tools, o.Catalog.Tools) && same(s.Catalog.Prompts, o.Catalog.Prompts) &&
		same(s.Catalog.Resources, o.Catalog.Resources) && same(s.Catalog.Templates, o.Catalog.Templates)
}
