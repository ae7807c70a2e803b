package webui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"net/url"
	"time"
)

const (
	// refreshEvery is how often the regions of a page are rendered again.
	refreshEvery = 2 * time.Second
	// refreshShare bounds the part of the time in which a stream renders: a page that takes long is
	// rendered less often, so that an open console costs calls nothing to speak of.
	refreshShare = 0.0005
	// refreshLatest is how long a page is shown as it was at most.
	refreshLatest = 10 * time.Second
	// keepAlive is how often a stream without changes says that it is there.
	keepAlive = 20 * time.Second
	// writeTimeout bounds how long a browser that does not read is waited for.
	writeTimeout = 10 * time.Second
)

// serveEvents sends the regions of a page whenever their HTML changes.
func (c *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	p, at := pageFor(r.URL.Query().Get("page"))
	if p == nil {
		http.Error(w, "the query must name a page of the console: page="+Prefix, http.StatusBadRequest)
		return
	}
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		http.Error(w, "too many pages of the console are open", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, "this connection cannot carry an event stream", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{console: c, page: p, request: requestFor(r, at), sent: make(map[string]uint64), seed: maphash.MakeSeed()}
	timer := time.NewTimer(cmp.Or(p.every, refreshEvery))
	defer timer.Stop()
	for last := time.Now(); ; {
		began := time.Now()
		events, err := s.changes()
		pause := pauseAfter(time.Since(began))
		if pause == refreshEvery {
			pause = cmp.Or(p.every, pause)
		}
		if err != nil {
			return // the page is gone, and the browser tries again
		}
		if len(events) == 0 && time.Since(last) > keepAlive {
			events = []byte(": nothing has changed\n\n")
		}
		if len(events) > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // if it cannot be set, a slow browser only holds its place
			if _, err := w.Write(events); err != nil || control.Flush() != nil {
				return
			}
			last = time.Now()
		}
		timer.Reset(pause)
		select {
		case <-r.Context().Done():
			return
		case <-c.drained:
			return
		case <-timer.C:
		}
		if !c.stillAdmitted(w, r) {
			return
		}
	}
}

// pauseAfter returns how long a stream waits after a rendering that took a time.
func pauseAfter(took time.Duration) time.Duration {
	return min(max(refreshEvery, time.Duration(float64(took)/refreshShare)), refreshLatest)
}

// requestFor returns the request of a page as the browser sent it.
func requestFor(r *http.Request, at *url.URL) *http.Request {
	of := r.Clone(r.Context())
	of.URL, of.Form, of.PostForm = at, nil, nil
	return of
}

// stream is the event stream of one page.
type stream struct {
	console *Console
	page    *page
	request *http.Request
	sent    map[string]uint64 // region → digest of its HTML
	seed    maphash.Seed
}

// changes returns the events of the regions whose HTML is not what was sent last.
func (s *stream) changes() ([]byte, error) {
	data, err := s.page.data(s.console, s.request)
	if err != nil {
		return nil, err
	}
	v, made := s.console.viewOf(s.request, s.page, data), templates[s.page.name]
	var events, b bytes.Buffer
	line := json.NewEncoder(&events)
	line.SetEscapeHTML(false) // a script reads it, not a parser of HTML
	for _, region := range made.regions {
		b.Reset()
		if err := made.template.ExecuteTemplate(&b, livePrefix+region, v); err != nil {
			return nil, err
		}
		html := visible(b.Bytes())
		if digest := maphash.Bytes(s.seed, html); s.sent[region] != digest {
			s.sent[region] = digest
			events.WriteString("event: region\ndata: ")
			if err := line.Encode(map[string]string{"id": region, "html": string(html)}); err != nil { // ends with a line break
				return nil, err
			}
			events.WriteByte('\n')
		}
	}
	return events.Bytes(), nil
}
