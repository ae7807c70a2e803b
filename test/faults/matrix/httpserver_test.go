package matrix

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcpgateway/test/internal/raw"
)

// web serves an upstream over HTTP.
type web struct {
	*upstream
	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	conns    map[net.Conn]http.ConnState
	sessions map[string]*body // by id; the stream of a session with HTTP+SSE
	last     int              // session id
}

func newWeb(u *upstream) *web {
	w := &web{upstream: u, conns: map[net.Conn]http.ConnState{}, sessions: map[string]*body{}}
	u.onChange, u.onGreeting = w.changedFault, w.greeted
	u.obey()
	return w
}

// open listens unless the present fault refuses connections.
func (w *web) open() error {
	if w.broken(refuses) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", w.Addr)
	if err != nil {
		return err
	}
	if w.Certificates != "" {
		l = tls.NewListener(l, &tls.Config{GetCertificate: w.certificate})
	}
	w.listener = l
	server := &http.Server{Handler: w, ConnState: w.track, ErrorLog: log.New(io.Discard, "", 0)}
	// A connection for each request: no call can meet the end of a connection that the server found idle, and the number of files shows leaks at once.
	server.SetKeepAlivesEnabled(false)
	go server.Serve(l)
	return nil
}

func (w *web) track(c net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns[c] = state; state == http.StateClosed || state == http.StateHijacked {
		delete(w.conns, c)
	}
}

// certificate returns the certificate that the present fault wants.
func (w *web) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := "good"
	for _, kind := range []string{untrusted, expired} {
		if w.broken(kind) {
			name = kind
		}
	}
	file := filepath.Join(w.Certificates, name+".pem")
	cert, err := tls.LoadX509KeyPair(file, file)
	return &cert, err
}

// changedFault does what a new fault does at once.
func (w *web) changedFault() {
	kind, moment, _ := w.now()
	switch {
	case kind == "":
		if err := w.open(); err != nil {
			panic(err)
		}
	case breaksConnections(kind) && moment != atList:
		w.cut(false)
	case kind == resets && moment == atIdle:
		w.fault(atIdle)
		w.cut(true)
	case kind == exits && moment == atIdle:
		w.exit(kind)
	}
	if kind != "" && (kind == forgets400 || kind == forgets404) && moment == atIdle {
		w.forget()
	}
}

// greeted makes connections fail from the next request on.
func (w *web) greeted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopListening()
	for c, state := range w.conns {
		if state == http.StateIdle {
			c.Close()
		}
	}
}

// cut ends all connections, with RST or not, and with [refuses] stops to listen.
func (w *web) cut(reset bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopListening()
	for c := range w.conns {
		if t, ok := c.(*net.TCPConn); ok && reset {
			t.SetLinger(0)
		}
		c.Close()
	}
}

// stopListening closes the listener if the present fault refuses connections. The caller holds mu.
func (w *web) stopListening() {
	if w.listener != nil && w.broken(refuses) {
		w.listener.Close()
		w.listener = nil
	}
}

// forget forgets all sessions, once for each fault.
func (w *web) forget() {
	w.upstream.mu.Lock()
	first := !w.forgot
	w.forgot = true
	w.upstream.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.sessions = map[string]*body{}
	}
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if kind, _, _ := w.now(); kind == clockDate {
		rw.Header().Set("Date", time.Now().Add(7*time.Hour).UTC().Format(http.TimeFormat))
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/token" {
		w.token(rw)
		return
	}
	switch {
	case !w.authorized(r):
		rw.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodGet && w.Transport == sse:
		w.openSession(rw, r)
	case r.Method == http.MethodGet && w.Transport == legacy:
		w.stand(rw, r, "")
	case r.Method != http.MethodPost:
		rw.WriteHeader(http.StatusMethodNotAllowed)
	default:
		m, err := raw.Read(string(text))
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		w.post(rw, r, m)
	}
}

// post answers one message of the gateway.
func (w *web) post(rw http.ResponseWriter, r *http.Request, m raw.Message) {
	kind := w.faultOf(m)
	if m.Method() == "notifications/initialized" || m.Method() == "server/discover" && kind == "" {
		if w.greet() {
			rw.Header().Set("Connection", "close")
		}
	}
	if !streams(m) && w.refuse(rw, r, kind) {
		return
	}
	session, known := w.session(r)
	switch {
	case !known && m.Method() != "initialize" && w.Transport != modern:
		status := http.StatusNotFound
		if k, _, _ := w.now(); k == forgets400 {
			status = http.StatusBadRequest
		}
		rw.WriteHeader(status)
	case m.Member("id") == "":
		rw.WriteHeader(http.StatusAccepted)
	case m.Method() == "subscriptions/listen":
		w.stand(rw, r, m.Member("id"))
	case w.Transport == sse:
		rw.Header().Set("Content-Length", "0")
		rw.WriteHeader(http.StatusAccepted)
		rw.(http.Flusher).Flush() // the message was taken, whatever happens to the stream
		session.mu.Lock()
		defer session.mu.Unlock()
		if streams(m) && kind == resets {
			session.write(session.frame(progress(m, 1)) + session.frame(progress(m, 2)))
			session.reset()
			return
		}
		w.send(kind, m, session)
	default:
		w.answer(rw, m, kind)
	}
}

// answer answers a request over streamable HTTP.
func (w *web) answer(rw http.ResponseWriter, m raw.Message, kind string) {
	if m.Method() == "initialize" {
		rw.Header().Set("Mcp-Session-Id", w.newSession(nil))
	}
	o := &body{w: rw, sse: streams(m) || kind == half || kind == twice || kind == noAnswer, over: make(chan struct{})}
	o.begin()
	if streams(m) && kind == resets {
		o.write(o.frame(progress(m, 1)) + o.frame(progress(m, 2)))
		o.reset()
		return
	}
	w.send(kind, m, o)
}

// refuse answers a request with a fault of HTTP or of the connection, and reports whether it did.
func (w *web) refuse(rw http.ResponseWriter, r *http.Request, kind string) bool {
	switch kind {
	case resets:
		(&body{w: rw}).reset()
	case status500:
		rw.WriteHeader(http.StatusInternalServerError)
	case status503:
		rw.WriteHeader(http.StatusServiceUnavailable)
	case status429, status429in7, clockRetry:
		later := map[string]string{status429in7: "7", clockRetry: time.Now().Add(7 * time.Hour).UTC().Format(http.TimeFormat)}[kind]
		if later != "" {
			rw.Header().Set("Retry-After", later)
		}
		rw.WriteHeader(http.StatusTooManyRequests)
	case html:
		rw.Header().Set("Content-Type", "text/html")
		io.WriteString(rw, "<html><body>Please log in.</body></html>")
	case forgets404, forgets400:
		w.forget()
		return false
	case exits, hangs:
		if w.Transport == sse && r.Method == http.MethodPost {
			return false // the message is taken before the fault shows on the stream
		}
		if kind == exits {
			w.exit(kind)
		}
		w.untilOver(kind)
		return false
	default:
		return false
	}
	return true
}

func (w *web) newSession(stream *body) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	id := fmt.Sprint("session-", w.last)
	w.sessions[id] = stream
	return id
}

func (w *web) session(r *http.Request) (*body, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := r.Header.Get("Mcp-Session-Id")
	if w.Transport == sse {
		id = r.URL.Query().Get("session")
	}
	stream, ok := w.sessions[id]
	return stream, ok
}

// body is the body of a response. Messages are events, or the body is one message.
type body struct {
	mu   sync.Mutex // held while a message is written, on a stream that several requests write to
	w    http.ResponseWriter
	sse  bool
	once sync.Once
	over chan struct{} // closed by end and stop
}

// begin sends the header.
func (b *body) begin() {
	kind := "application/json"
	if b.sse {
		kind = "text/event-stream"
	}
	b.w.Header().Set("Content-Type", kind)
	b.w.WriteHeader(http.StatusOK)
	b.w.(http.Flusher).Flush()
}

func (b *body) frame(message string) string {
	if b.sse {
		return "data: " + message + "\n\n"
	}
	return message
}

func (b *body) write(text string) {
	select {
	case <-b.over:
		return
	default:
	}
	io.WriteString(b.w, text)
	b.w.(http.Flusher).Flush()
}

func (b *body) end()  { b.once.Do(func() { close(b.over) }) }
func (b *body) stop() { b.end() }

// reset ends the connection with RST.
func (b *body) reset() {
	conn, _, err := b.w.(http.Hijacker).Hijack()
	if err != nil {
		return // it has ended
	}
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	conn.Close()
	if b.over != nil {
		b.end()
	}
}

// stand serves a stream that belongs to no request: that of a legacy session, or with an id that of a modern subscription.
func (w *web) stand(rw http.ResponseWriter, r *http.Request, id string) {
	if _, known := w.session(r); !known && w.Transport == legacy {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	kind := w.fault(atIdle)
	if w.refuse(rw, r, kind) {
		return
	}
	o := &body{w: rw, sse: true, over: make(chan struct{})}
	o.begin()
	if id != "" {
		o.write(o.frame(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id +
			`},"notifications":{"toolsListChanged":true}}}`))
	}
	if kind == noAnswer || kind == half {
		w.sendIdle(kind, o)
		return
	}
	w.keep(o, r)
}

// keep keeps a stream open until it ends or a fault ends it.
func (w *web) keep(o *body, r *http.Request) {
	for {
		_, _, changed := w.now()
		select {
		case <-o.over:
			return
		case <-r.Context().Done():
			return
		case <-changed:
		}
		if kind, moment, _ := w.now(); kind != "" && moment == atIdle {
			o.mu.Lock()
			goesOn := w.sendIdle(kind, o)
			o.mu.Unlock()
			if !goesOn {
				return
			}
			w.fault(atIdle)
		}
	}
}

// openSession serves the stream of a session with HTTP+SSE.
func (w *web) openSession(rw http.ResponseWriter, r *http.Request) {
	kind := w.fault(atConnect, atIdle)
	_, moment, _ := w.now()
	if w.refuse(rw, r, kind) {
		return
	}
	o := &body{w: rw, sse: true, over: make(chan struct{})}
	o.begin()
	id := w.newSession(o)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.sessions, id)
	}()
	first := "event: endpoint\ndata: /message?session=" + id + "\n\n"
	if moment == atIdle || moment == atConnect {
		switch kind {
		case noAnswer:
			return
		case half:
			o.write(first[:len(first)/2])
			return
		case garbage:
			first = "data: }{ not JSON\n\n"
		case drips:
			w.drip(o, first)
			first = ""
		}
	}
	o.mu.Lock() // the gateway sends its first message as soon as it has read this, and the answer is written here too
	o.write(first)
	o.mu.Unlock()
	w.keep(o, r)
	o.mu.Lock() // nothing is written after the handler has returned
	o.end()
	o.mu.Unlock()
}

// token issues a token. The present fault decides how long it says that the token is valid.
func (w *web) token(rw http.ResponseWriter) {
	kind, moment, _ := w.now()
	w.upstream.mu.Lock()
	defer w.upstream.mu.Unlock()
	w.tokens++
	valid := 10 * time.Hour
	if kind == clockExpiry && moment != atCall {
		valid = -7 * time.Hour
	}
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(rw, `{"access_token":"token-%d","token_type":"Bearer","expires_in":%d}`, w.tokens, int(valid.Seconds()))
}

// authorized checks the token of a request. With the fault at a call, tokens of before expired long before the time that the server said.
func (w *web) authorized(r *http.Request) bool {
	kind, moment, _ := w.now()
	text, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer token-")
	if !given {
		return !strings.HasPrefix(w.Name, clockExpiry)
	}
	w.upstream.mu.Lock()
	defer w.upstream.mu.Unlock()
	if kind == clockExpiry && moment == atCall && !w.forgot {
		w.forgot, w.refused, w.hits = true, w.tokens, w.hits+1
	}
	n := 0
	_, err := fmt.Sscan(text, &n)
	return err == nil && n > w.refused
}
