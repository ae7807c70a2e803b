package main

import (
	"encoding/json"
	"net/http"
	"sync"
)

// ServeHTTP implements http.Handler for streamable HTTP of both eras.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, r.Header.Get("Mcp-Session-Id"))
		s.mu.Unlock()
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		reply(w, http.StatusBadRequest, response(nil, nil, faultf(-32700, "Parse error")))
		return
	}
	p, f := readParams(m.Params)
	if f != nil {
		reply(w, http.StatusBadRequest, response(m.ID, nil, f))
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	if p.modern() || version != "" && version != legacyRevision {
		s.modernPost(w, r, &m, p)
		return
	}
	if s.era == "modern" {
		reply(w, http.StatusBadRequest, response(m.ID, nil, unsupported()))
		return
	}
	s.legacyPost(w, r, &m)
}

func (s *server) modernPost(w http.ResponseWriter, r *http.Request, m *message, p *params) {
	switch f := checkModern(r, m, p); {
	case s.era == "legacy":
		w.WriteHeader(http.StatusBadRequest)
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case f != nil:
		reply(w, http.StatusBadRequest, response(m.ID, nil, f))
		return
	}
	if m.Method == "subscriptions/listen" {
		stream := newStream(w)
		end, f := s.listen(m, p, stream.send)
		if f != nil {
			reply(w, http.StatusBadRequest, response(m.ID, nil, f))
			return
		}
		defer stream.close()
		defer end()
		select {
		case <-r.Context().Done():
		case <-s.life.Done():
		}
		return
	}
	result, f := s.modern(r.Context(), m, p)
	status := http.StatusOK
	switch {
	case f == nil:
	case f.Code == methodNotFound:
		status = http.StatusNotFound
	case f.Code == missingCapability:
		status = http.StatusBadRequest
	}
	reply(w, status, response(m.ID, result, f))
}

// checkModern compares the headers with the body (2026-07-28, basic/transports/streamable-http; the extension adds the task's id).
func checkModern(r *http.Request, m *message, p *params) *fault {
	name := ""
	switch m.Method {
	case "tools/call":
		name = p.Name
	case "tasks/get", "tasks/update", "tasks/cancel":
		name = p.TaskID
	}
	switch {
	case p.Meta.Version == "" || p.Meta.Capabilities == nil:
		return faultf(invalidParams, "Invalid params: _meta is incomplete")
	case r.Header.Get("Mcp-Protocol-Version") != p.Meta.Version, r.Header.Get("Mcp-Method") != m.Method, r.Header.Get("Mcp-Name") != name:
		return faultf(headerMismatch, "Header mismatch")
	case p.Meta.Version != modernRevision:
		return unsupported()
	}
	return nil
}

func (s *server) legacyPost(w http.ResponseWriter, r *http.Request, m *message) {
	if m.Method == "initialize" {
		c := newSession(func(object) {})
		s.mu.Lock()
		s.sessions[c.id] = c
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", c.id)
		result, f := s.legacy(r.Context(), c, m, nil)
		reply(w, http.StatusOK, response(m.ID, result, f))
		return
	}
	c := s.sessionOf(r)
	switch {
	case c == nil && m.Method == "server/discover": // a probe
		w.WriteHeader(http.StatusBadRequest)
	case c == nil:
		reply(w, http.StatusNotFound, response(m.ID, nil, faultf(invalidRequest, "Session not found")))
	case m.Method == "":
		c.answered(m)
		w.WriteHeader(http.StatusAccepted)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tasks/result":
		stream := newStream(w)
		defer stream.close()
		result, f := s.legacy(r.Context(), c, m, stream.send)
		stream.send(response(m.ID, result, f))
	default:
		result, f := s.legacy(r.Context(), c, m, nil)
		reply(w, http.StatusOK, response(m.ID, result, f))
	}
}

// get serves the GET stream of a legacy session.
func (s *server) get(w http.ResponseWriter, r *http.Request) {
	c := s.sessionOf(r)
	if c == nil || s.era == "modern" {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	stream := newStream(w)
	stream.open()
	c.listen(stream.send)
	defer stream.close()
	defer c.listen(func(object) {})
	select {
	case <-r.Context().Done():
	case <-s.life.Done():
	}
}

func (s *server) sessionOf(r *http.Request) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[r.Header.Get("Mcp-Session-Id")]
}

func reply(w http.ResponseWriter, status int, m object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(m)) // an error means that the client is gone
}

// stream is a response that is an event stream. Nothing is written after close.
type stream struct {
	w      http.ResponseWriter
	mu     sync.Mutex
	opened bool
	closed bool
}

func newStream(w http.ResponseWriter) *stream { return &stream{w: w} }

func (s *stream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
}

// begin writes the response's header. The caller holds mu.
func (s *stream) begin() {
	if s.opened {
		return
	}
	s.opened = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.WriteHeader(http.StatusOK)
	s.w.(http.Flusher).Flush()
}

func (s *stream) send(m object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.begin()
	_, _ = s.w.Write(append(append([]byte("data: "), encode(m)...), "\n\n"...)) // as in reply
	s.w.(http.Flusher).Flush()
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
