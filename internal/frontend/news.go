package frontend

import (
	"maps"
	"slices"

	"mcpgateway/internal/wire"
)

// news is what has changed and is not yet on its way to a client: lists and
// resources. What waits together is told once for each. The zero news is none.
type news struct {
	lists   changes
	updated map[string]resourceUpdate // by URI
	size    int                       // bytes in updated
}

// resourceUpdate is that a resource has changed.
type resourceUpdate struct {
	about  string   // the resource that the client has subscribed to
	uri    string   // the one that has changed: the same, or a part of it
	params wire.Raw // of the notification
}

func (u resourceUpdate) size() int { return len(u.uri) + len(u.params) }

// maxNews bounds the bytes of updates that wait for one client. The updates of
// parts of a resource that would go beyond become one of the whole, which the
// client has subscribed to and so is to read again.
const maxNews = 256 << 10

func (n *news) isNone() bool { return n.lists == 0 && len(n.updated) == 0 }

// add adds newer news.
func (n *news) add(newer news) {
	n.lists |= newer.lists
	for _, u := range newer.updated {
		n.update(u)
	}
}

func (n *news) update(u resourceUpdate) {
	if n.size+u.size() > maxNews {
		u.uri, u.params = u.about, wire.SetMember(wire.Raw(`{}`), "uri", wire.String(u.about))
	}
	if n.updated == nil {
		n.updated = make(map[string]resourceUpdate)
	}
	if old, there := n.updated[u.uri]; there {
		n.size -= old.size()
	}
	n.updated[u.uri] = u
	n.size += u.size()
}

// newsOf returns the news of one update.
func newsOf(u resourceUpdate) news {
	return news{updated: map[string]resourceUpdate{u.uri: u}, size: u.size()}
}

// messages returns the notifications, those of lists first, with the id of the
// subscription if there is one.
func (n *news) messages(subscription wire.ID) [][]byte {
	var out [][]byte
	for _, method := range n.lists.methods() {
		m := wire.Message{Method: method}
		if !subscription.IsZero() {
			m.Params = subscriptionParams(subscription)
		}
		out = append(out, m.Append(nil))
	}
	for _, uri := range slices.Sorted(maps.Keys(n.updated)) {
		m := wire.Message{Method: wire.NoteResourceUpdated, Params: n.updated[uri].params}
		if !subscription.IsZero() {
			m.Params = withSubscription(m.Params, subscription)
		}
		out = append(out, m.Append(nil))
	}
	return out
}

// withSubscription returns the params of a notification with the id of the
// subscription in their _meta.
func withSubscription(params wire.Raw, id wire.ID) wire.Raw {
	e := wire.NewEdit(params)
	if meta := e.Root().Get("_meta"); meta.Kind() == '{' {
		e.Set(meta, wire.MetaSubscriptionID, id.Append(nil))
	} else {
		own := wire.ValueOf(subscriptionParams(id)).Get("_meta").Raw()
		e.Set(e.Root(), "_meta", own)
	}
	return e.Bytes()
}
