package stream

import (
	"maps"
	"slices"

	"mcpgateway/internal/wire"
)

// ListChanges is a set of lists that have changed.
type ListChanges uint8

// The lists that clients are notified about.
const (
	ToolsChanged ListChanges = 1 << iota
	PromptsChanged
	ResourcesChanged
	// AllChanged is all of them.
	AllChanged = ToolsChanged | PromptsChanged | ResourcesChanged
)

// ListChangeOf returns the list that a notification is about, or 0 if the method is
// not a list change.
func ListChangeOf(method string) ListChanges {
	for i, m := range listChanges {
		if m.Name == method {
			return 1 << i
		}
	}
	return 0
}

// listChanges are the notifications for the lists, in the order of [ListChanges].
var listChanges = wire.MethodsOf(wire.KindListChanged)

// methods returns the notifications for the lists.
func (c ListChanges) methods() []string {
	var out []string
	for i, m := range listChanges {
		if c&(1<<i) != 0 {
			out = append(out, m.Name)
		}
	}
	return out
}

// Notifications is a queue of changes about which a client was not notified yet. Changes
// of the same list or resource coalesce. The zero value is an empty queue.
type Notifications struct {
	Lists   ListChanges
	updated map[string]ResourceUpdate // by URI
	size    int                       // bytes in updated
}

// ResourceUpdate says that a resource has changed.
type ResourceUpdate struct {
	Subscribed string   // URI of the resource that the client has subscribed to
	URI        string   // URI of the resource that has changed: the same, or a part of it
	Params     wire.Raw // params of the notification
}

func (u ResourceUpdate) size() int { return len(u.URI) + len(u.Params) }

// maxPendingUpdates bounds the bytes of updates that wait for one client. Beyond it,
// updates for parts of a resource become one update for the whole resource: the
// client has subscribed to that, so it reads the whole again.
const maxPendingUpdates = 256 << 10

// IsEmpty reports whether there is nothing to tell.
func (n *Notifications) IsEmpty() bool { return n.Lists == 0 && len(n.updated) == 0 }

// Add adds newer changes.
func (n *Notifications) Add(newer Notifications) {
	n.Lists |= newer.Lists
	for _, u := range newer.updated {
		n.AddUpdate(u)
	}
}

// AddUpdate adds one update, which replaces an older one of the same resource.
func (n *Notifications) AddUpdate(u ResourceUpdate) {
	if n.size+u.size() > maxPendingUpdates {
		u.URI, u.Params = u.Subscribed, wire.SetMember(wire.Raw(`{}`), "uri", wire.String(u.Subscribed))
	}
	if n.updated == nil {
		n.updated = make(map[string]ResourceUpdate)
	}
	if old, ok := n.updated[u.URI]; ok {
		n.size -= old.size()
	}
	n.updated[u.URI] = u
	n.size += u.size()
}

// UpdateOf returns a queue with one update.
func UpdateOf(u ResourceUpdate) Notifications {
	return Notifications{updated: map[string]ResourceUpdate{u.URI: u}, size: u.size()}
}

// messages returns the notifications, list changes first. If subscription is not the
// zero ID, they carry it.
func (n *Notifications) messages(subscription wire.ID) [][]byte {
	var out [][]byte
	for _, method := range n.Lists.methods() {
		m := wire.Message{Method: method}
		if !subscription.IsZero() {
			m.Params = SubscriptionParams(subscription)
		}
		out = append(out, m.Append(nil))
	}
	for _, uri := range slices.Sorted(maps.Keys(n.updated)) {
		m := wire.Message{Method: wire.NoteResourceUpdated, Params: n.updated[uri].Params}
		if !subscription.IsZero() {
			m.Params = WithSubscription(m.Params, subscription)
		}
		out = append(out, m.Append(nil))
	}
	return out
}

// WithSubscription returns the params of a notification with the id of a subscription
// in their _meta.
func WithSubscription(params wire.Raw, id wire.ID) wire.Raw {
	e := wire.NewEdit(params)
	if meta := e.Root().Get("_meta"); meta.Kind() == '{' {
		e.Set(meta, wire.MetaSubscriptionID, id.Append(nil))
	} else {
		meta := wire.ValueOf(SubscriptionParams(id)).Get("_meta").Raw()
		e.Set(e.Root(), "_meta", meta)
	}
	return e.Bytes()
}

// SubscriptionParams returns params with only the id of a subscription in their _meta.
func SubscriptionParams(id wire.ID) wire.Raw {
	params := append(wire.Raw(`{"_meta":{`), wire.String(wire.MetaSubscriptionID)...)
	return append(id.Append(append(params, ':')), '}', '}')
}
