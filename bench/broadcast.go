package main

import (
	"io"
	"net/http"
	"strconv"
	"sync"
)

const resourceURI = "bench://state" // the resource of an upstream with updates

// broadcast keeps responses open. GET opens an event stream. POST writes the
// update of the resource, with the query as its name, to all open streams, one
// after the other: the least work with which a server can do it.
type broadcast struct {
	mu   sync.Mutex
	open map[*http.Request]http.ResponseWriter
}

func (b *broadcast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		b.update(r.URL.RawQuery)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	b.mu.Lock()
	if b.open == nil {
		b.open = make(map[*http.Request]http.ResponseWriter)
	}
	b.open[r] = w
	w.(http.Flusher).Flush() // the client may rely on the next update
	b.mu.Unlock()
	<-r.Context().Done()
	b.mu.Lock()
	delete(b.open, r)
	b.mu.Unlock()
}

// update writes the event to all open streams. It holds the lock, so that no
// handler returns while its response is written.
func (b *broadcast) update(name string) {
	event := "event: message\ndata: " + `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + resourceURI +
		`","_meta":{"bench/update":` + strconv.Quote(name) + `}}}` + "\n\n"
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.open {
		io.WriteString(w, event)
		w.(http.Flusher).Flush()
	}
}
