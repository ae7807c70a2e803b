package bridge

import (
	"crypto/rand"
	"sync"
)

// maxElicitations bounds how many ids are remembered. The oldest are removed first; their clients
// only miss the notification of the completion.
const maxElicitations = 4096

// Elicitations gives each client that is asked to open a URL an id of its own, and remembers
// which client to notify of the completion: only the one that was asked (2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode Elicitation"). The zero value is
// ready for use.
type Elicitations struct {
	mu    sync.Mutex
	open  map[elicitation]recipient
	order []elicitation // the oldest first; may name removed ones
}

type elicitation struct{ upstream, id string }

type recipient struct{ client, public string }

// PublicID returns the id with which a client is asked, for an upstream that asks under its own
// id, "" for none. A client that was asked under that id before gets the same public id, so that
// it recognizes the question when it sends its call again.
func (e *Elicitations) PublicID(upstream, id, client string) string {
	public := rand.Text()
	if id == "" {
		return public
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = make(map[elicitation]recipient)
	}
	key := elicitation{upstream, id}
	before, again := e.open[key]
	switch {
	case !again:
		e.order = append(e.order, key)
	case before.client == client:
		return before.public
	}
	e.open[key] = recipient{client, public}
	for len(e.order) > maxElicitations {
		delete(e.open, e.order[0])
		e.order = e.order[1:]
	}
	return public
}

// Complete returns the client that was asked under the upstream's id, and its public id, and
// removes them.
func (e *Elicitations) Complete(upstream, id string) (client, public string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := elicitation{upstream, id}
	a, ok := e.open[key]
	delete(e.open, key)
	return a.client, a.public, ok
}
