package bridge

import (
	"crypto/rand"
	"sync"
)

// maxElicitations bounds how many ids are remembered; the oldest go first. A
// completion that is not told costs a client nothing but the news.
const maxElicitations = 4096

// Elicitations gives each client that is asked to open a URL an id of its own
// for that, and remembers to whom a completion is to be told: to the client
// that was asked and nobody else (2025-11-25, client/elicitation, "Completion
// Notifications for URL Mode Elicitation"). The zero value is ready for use.
type Elicitations struct {
	mu    sync.Mutex
	open  map[elicitation]asked
	order []elicitation // as they came; may name some that are gone
}

type elicitation struct{ upstream, id string }

type asked struct{ client, public string }

// Public returns the id for a client whom an upstream asks under its own id, ""
// when it gave none. It is a fresh one unless the client has been asked under that
// id before: a client that sends its call again must know the question for the same.
func (e *Elicitations) Public(upstream, id, client string) string {
	public := rand.Text()
	if id == "" {
		return public
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = make(map[elicitation]asked)
	}
	key := elicitation{upstream, id}
	before, again := e.open[key]
	switch {
	case !again:
		e.order = append(e.order, key)
	case before.client == client:
		return before.public
	}
	e.open[key] = asked{client, public}
	for len(e.order) > maxElicitations {
		delete(e.open, e.order[0])
		e.order = e.order[1:]
	}
	return public
}

// Complete returns who was asked under the upstream's id, and under which id of
// theirs, and forgets it.
func (e *Elicitations) Complete(upstream, id string) (client, public string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := elicitation{upstream, id}
	a, ok := e.open[key]
	delete(e.open, key)
	return a.client, a.public, ok
}
