package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// childEnv makes this binary a scripted server on stdio. Its value is the revision. The value of dirEnv is the folder of the journal and of the present
// fault.
const (
	childEnv = "SOAK_SERVER"
	dirEnv   = "SOAK_DIR"
)

// serveStdio serves standard input and output until the input ends. A violation is printed to standard error and sets the exit status.
func serveStdio(revision, dir string) {
	var mu sync.Mutex
	write := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(text)
	}
	s := newServer(revision, func(format string, a ...any) {
		fmt.Fprintf(os.Stderr, "WRONG: "+format+"\n", a...)
		os.Exit(4)
	})
	s.aside[""] = write
	s.continueJournal(dir)
	s.note(eventStart, "")
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			s.violation("an invalid line: %v: %s", err, in.Text())
		}
		if m.isResponse() || m.ID == nil {
			s.take(context.Background(), &m, write) // in order
			continue
		}
		kind := faultIn(dir)
		go func() {
			if kind != "" && s.failOnStdio(kind, &m, write) {
				return
			}
			if answer := s.take(context.Background(), &m, write); answer != "" {
				write(answer)
			}
		}()
	}
	os.Exit(0)
}

// httpServer is a scripted server on streamable HTTP.
type httpServer struct {
	*server
	srv *http.Server
	url string

	mu       sync.Mutex
	sessions map[string]bool // sessions of a legacy server
	last     int
	life     context.Context // ends at a restart
	end      context.CancelFunc
	fault    string // the present one, "" for none
}

func newHTTPServer(revision string, wrong func(string, ...any)) (*httpServer, error) {
	h := &httpServer{server: newServer(revision, wrong), sessions: make(map[string]bool)}
	h.life, h.end = context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h.url = "http://" + l.Addr().String()
	h.srv = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go h.srv.Serve(l) // ends at close
	return h, nil
}

// restart closes all used connections and discards the state.
func (h *httpServer) restart() {
	h.mu.Lock()
	h.end()
	h.life, h.end = context.WithCancel(context.Background())
	h.sessions = make(map[string]bool)
	h.mu.Unlock()
	h.forget()
}

func (h *httpServer) close() {
	h.restart()
	h.srv.Close()
}

func (h *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	life := h.life
	session := r.Header.Get("Mcp-Session-Id")
	known := h.revision == modern || h.sessions[session]
	fault := h.fault
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	if r.Method == http.MethodGet && known && h.revision == legacy {
		h.stream(ctx, life, w, session)
		return
	}
	body, err := io.ReadAll(r.Body)
	var m message
	if err == nil && r.Method == http.MethodPost {
		err = json.Unmarshal(body, &m)
	}
	switch {
	case err != nil:
		http.Error(w, "no message", http.StatusBadRequest)
		return
	case fault != "" && m.ID != nil && h.failOnHTTP(ctx, fault, &m, w):
		return
	case r.Method == http.MethodPost && h.revision == legacy && m.Method == "server/discover":
		http.Error(w, "no session", http.StatusBadRequest)
		return
	case m.Method == "initialize" && h.revision == legacy:
		h.mu.Lock()
		h.last++
		session = "session-" + strconv.Itoa(h.last)
		h.sessions[session] = true
		h.mu.Unlock()
		h.note(eventStart, "")
		w.Header().Set("Mcp-Session-Id", session)
	case !known:
		http.Error(w, "no session", http.StatusNotFound)
		return
	case r.Method == http.MethodDelete:
		h.mu.Lock()
		delete(h.sessions, session)
		h.mu.Unlock()
		h.note(eventStop, "")
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if h.revision == legacy {
		m.session = session
	}
	h.answer(ctx, life, w, &m)
}

// answer serves one message: with a single body, or with a stream if messages precede the answer.
func (h *httpServer) answer(ctx, life context.Context, w http.ResponseWriter, m *message) {
	var mu sync.Mutex
	streaming, over := false, false
	out := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if !streaming {
			streaming = true
			w.Header().Set("Content-Type", "text/event-stream")
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	}
	text := h.take(ctx, m, out)
	if text != "" && streaming {
		out(text)
	}
	mu.Lock()
	defer mu.Unlock()
	over = true
	switch {
	case life.Err() != nil:
		panic(http.ErrAbortHandler) // the server was restarted
	case streaming:
	case text == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
	}
}

// stream is the GET stream of a legacy session.
func (h *httpServer) stream(ctx, life context.Context, w http.ResponseWriter, session string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	notes := make(chan string, 1024)
	h.server.mu.Lock()
	h.server.aside[session] = func(text string) {
		select {
		case notes <- text:
		default:
			h.violation("the gateway does not read its stream")
		}
	}
	h.server.mu.Unlock()
	for {
		select {
		case text := <-notes:
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		case <-ctx.Done():
			if life.Err() != nil {
				panic(http.ErrAbortHandler)
			}
			return
		}
	}
}
