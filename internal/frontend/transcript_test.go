package frontend

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mcpgateway/internal/call"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata with what happens")

// TestTranscripts plays the transcripts in testdata and compares the responses. Each runs
// in a synctest bubble. A step begins when all goroutines wait.
//
// The files of an archive are steps:
//
//	options       settings of the server, one per line
//	send NAME     an HTTP request, called NAME in later steps. Content-Type and Accept
//	              are those of a correct client unless they are given;
//	              "Header: -" leaves a header out. session-1, session-2 … stand
//	              for the ids of sessions in the order in which they were opened,
//	              stream-1, stream-2 … for those of the streams that events named,
//	              and peer-1, peer-2 … for those of HTTP+SSE. /sse is served too.
//	recv NAME     the part of its response since the last recv, with consecutive
//	              comments as one (golden)
//	in            lines that a client on stdio writes; the first one starts it
//	out           lines that it has read since the last out (golden)
//	calls         the record of the handler since the last calls (golden)
//	do            actions, one per line: see (*play).do
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { newPlay(t, archive).run() })
			if !*update { // what happens does not depend on the server
				synctest.Test(t, func(t *testing.T) {
					p := newPlay(t, archive)
					p.continues = true
					p.run()
				})
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// play is the state of one transcript.
type play struct {
	t        *testing.T
	archive  *txtar.Archive
	handler  *scriptHandler
	server   *Server
	stop     context.CancelFunc
	requests map[string]*recorder
	// continues says that responses can be continued, as those of http1server.
	continues bool
	sessions  []string // ids in the order in which they were opened
	streams   []string // ids that events named, in the order in which they appeared
	peers     []string // ids of HTTP+SSE peers that were named, in the same order
	// requestIDs are those that the gateway has made.
	requestIDs []string
	stdio      *stdioClient       // nil before the first step of stdio
	board      *testSubscriptions // nil unless an option enables it
}

func newPlay(t *testing.T, archive *txtar.Archive) *play {
	p := &play{t: t, archive: archive, handler: newScriptHandler(), requests: make(map[string]*recorder)}
	o := Options{
		Handler: p.handler,
		Info:    wire.Raw(`{"name":"gateway","version":"1"}`),
		Events: Events{LogLevel: func(l wire.Level) {
			p.handler.record("log level %q", l)
		}},
		HeaderParams: func(_ *call.Principal, _ *call.Client, name string) []wire.HeaderParam {
			if name == "echo" {
				return []wire.HeaderParam{{Header: "Mcp-Param-Region", Path: []string{"region"}}}
			}
			return nil
		},
	}
	for _, f := range archive.Files {
		if f.Name == "options" {
			for line := range strings.Lines(string(f.Data)) {
				p.option(&o, strings.Fields(line))
			}
		}
	}
	p.server = New(o)
	return p
}

func (p *play) option(o *Options, words []string) {
	switch words[0] {
	case "max_message":
		o.Limits.MaxMessage = p.number(words[1])
	case "max_sessions":
		o.Limits.MaxSessions = p.number(words[1])
	case "max_depth":
		o.Limits.JSON.Depth = p.number(words[1])
	case "loopback":
		o.LoopbackListener = true
	case "origins":
		o.AllowedOrigins = words[1:]
	case "hosts":
		o.AllowedHosts = words[1:]
	case "public":
		o.PublicURL = words[1]
	case "subscriptions":
		p.board = &testSubscriptions{script: p.handler, set: make(map[*testSubscription]bool)}
		o.Subscriptions = p.board
	case "authenticate": // the Authorization header names the subject
		o.Authenticate = func(r *http.Request) (*call.Principal, error) {
			subject := r.Header.Get("Authorization")
			if subject == "" {
				return nil, fmt.Errorf("no credentials")
			}
			return &call.Principal{Subject: subject, AuthMethod: "api-key"}, nil
		}
	default:
		p.t.Fatalf("unknown option %q", words)
	}
}

func (p *play) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *play) run() {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.server.Run(ctx); err != nil {
			p.t.Errorf("Run: %v", err)
		}
	})
	for i := range p.archive.Files {
		f := &p.archive.Files[i]
		verb, name, _ := strings.Cut(f.Name, " ")
		switch verb {
		case "options":
		case "send":
			p.send(name, string(f.Data))
		case "recv":
			p.compare(f, p.recv(name))
		case "in":
			if p.stdio == nil {
				p.stdio = startStdio(ctx, p.server)
			}
			p.stdio.write(p.t, string(f.Data))
		case "out":
			out := p.stdio.take()
			p.requestIDs, out = number(p.requestIDs, madeIDs, "request", out)
			p.compare(f, out)
		case "calls":
			p.compare(f, p.handler.take())
		case "do":
			for line := range strings.Lines(string(f.Data)) {
				p.do(strings.Fields(line))
			}
		default:
			p.t.Fatalf("unknown step %q", f.Name)
		}
		synctest.Wait()
	}
	stop()
	wg.Wait()
	synctest.Wait()
	if p.stdio != nil {
		p.stdio.in.Close() // unblocks the reader
		<-p.stdio.done
	}
	if calls, bodies := p.server.calls.Held(), p.server.bodies.Held(); calls != 0 || bodies != 0 {
		p.t.Errorf("%d calls and %d bytes of bodies are still held", calls, bodies)
	}
	for name, r := range p.requests {
		if !r.ended() {
			r.cancel()
			synctest.Wait()
			p.t.Errorf("request %q was still open after the end of Run", name)
		}
	}
}

func (p *play) do(words []string) {
	switch words[0] {
	case "changed":
		has := func(what string) bool { return slices.Contains(words, what) }
		p.server.ListChanged(has("tools"), has("prompts"), has("resources"))
	case "updated": // tells subscribers of the first URI that the second has changed
		p.board.updated(words[1], words[2])
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(d) // of the bubble's clock
	case "open": // lets calls of the tool wait continue
		close(p.handler.release(words[1]))
	case "disconnect":
		p.requests[words[1]].cancel()
	case "drain":
		p.server.Drain()
	case "stop":
		p.stop()
	case "close": // closes the input of stdio
		p.stdio.in.Close()
	default:
		p.t.Fatalf("unknown action %q", words)
	}
	synctest.Wait()
}

func (p *play) send(name, text string) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	target, body = p.withIDs(target), p.withIDs(strings.TrimSuffix(body, "\n"))
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway.test"+target, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(requestid.Header, "request-"+notInIDs.ReplaceAllString(name, "-"))
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case key == "Host":
			r.Host = value
		case value == "-":
			r.Header.Del(key)
		default:
			if key == "Accept" || key == "Content-Type" {
				r.Header.Del(key)
			}
			r.Header.Add(key, p.withIDs(value))
		}
	}
	w := &recorder{header: make(http.Header), done: make(chan struct{}), cancel: cancel}
	p.requests[name] = w
	go func() {
		defer close(w.done)
		serve := p.server.ServeHTTP
		if strings.HasPrefix(target, "/sse") {
			serve = p.server.ServeSSE
		}
		if p.continues {
			serveContinued(serve, w, r)
		} else {
			serve(w, r)
		}
	}()
	synctest.Wait()
	if got := w.header.Get(requestid.Header); got != r.Header.Get(requestid.Header) {
		p.t.Errorf("%s: the id of the response is %q", name, got)
	}
	if id := w.header.Get(wire.HeaderSession); id != "" {
		p.sessions = append(p.sessions, id)
	}
}

// withIDs replaces session-1, session-2 and so on by the real ids.
func (p *play) withIDs(s string) string {
	for i, id := range p.sessions {
		s = strings.ReplaceAll(s, fmt.Sprintf("session-%d", i+1), id)
	}
	for i, id := range p.streams {
		s = strings.ReplaceAll(s, fmt.Sprintf("stream-%d", i+1), id)
	}
	for i, id := range p.peers {
		s = strings.ReplaceAll(s, fmt.Sprintf("peer-%d", i+1), id)
	}
	return s
}

func (p *play) recv(name string) string {
	w := p.requests[name]
	if w == nil {
		p.t.Fatalf("no request %q", name)
	}
	out := w.take()
	for i, id := range p.sessions {
		out = strings.ReplaceAll(out, id, fmt.Sprintf("session-%d", i+1))
	}
	out = keepAlives.ReplaceAllString(out, ": keep-alive\n\n") // their number varies
	p.streams, out = number(p.streams, eventIDs, "stream", out)
	p.peers, out = number(p.peers, peerIDs, "peer", out)
	return out
}

var (
	// The first part of an event's id is the id of its stream.
	eventIDs   = regexp.MustCompile(`(?m)^id: ([A-Z2-7]{26}c?)-\d+$`)
	peerIDs    = regexp.MustCompile(`sessionId=([A-Z2-7]{52})`)
	notInIDs   = regexp.MustCompile(`[^a-z0-9]+`)
	madeIDs    = regexp.MustCompile(`"requestId":"([0-9a-z]{20})"`)
	keepAlives = regexp.MustCompile(`(: keep-alive\n\n)+`)
)

// number replaces the ids that an expression finds by numbered names.
func number(known []string, ids *regexp.Regexp, name, out string) ([]string, string) {
	for _, match := range ids.FindAllStringSubmatch(out, -1) {
		if id := match[1]; !slices.Contains(known, id) {
			known = append(known, id)
		}
	}
	for i, id := range known {
		out = strings.ReplaceAll(out, id, fmt.Sprintf("%s-%d", name, i+1))
	}
	return known, out
}

func (p *play) compare(f *txtar.File, got string) {
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if *update {
		f.Data = []byte(got)
		return
	}
	if diff := cmp.Diff(string(f.Data), got); diff != "" {
		p.t.Errorf("%q differs (-want +got):\n%s", f.Name, diff)
	}
}

// recorder is a ResponseWriter that can be read while it is written.
type recorder struct {
	cancel context.CancelFunc // disconnects the client
	done   chan struct{}

	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
	shown  bool // take has returned the header
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *recorder) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(b)
}

func (w *recorder) Flush() {}

func (w *recorder) SetReadDeadline(time.Time) error  { return nil }
func (w *recorder) SetWriteDeadline(time.Time) error { return nil }

func (w *recorder) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// take returns the part of the response since the last take: the status and the headers
// first, and finally whether the response is complete.
func (w *recorder) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out strings.Builder
	if w.status != 0 && !w.shown {
		w.shown = true
		fmt.Fprintf(&out, "%d %s\n", w.status, http.StatusText(w.status))
		for _, key := range slices.Sorted(maps.Keys(w.header)) {
			if key != "X-Content-Type-Options" && key != "Content-Length" && key != requestid.Header {
				fmt.Fprintf(&out, "%s: %s\n", key, strings.Join(w.header[key], ", "))
			}
		}
		out.WriteByte('\n')
		if length := w.header.Get("Content-Length"); length != "" && length != strconv.Itoa(w.body.Len()) {
			fmt.Fprintf(&out, "[wrong Content-Length %s]\n", length)
		}
	}
	if w.body.Len() > 0 {
		out.Write(w.body.Bytes())
		if !bytes.HasSuffix(w.body.Bytes(), []byte("\n")) {
			out.WriteByte('\n')
		}
		w.body.Reset()
	}
	if w.ended() {
		out.WriteString("[end]\n")
	} else {
		out.WriteString("[open]\n")
	}
	return out.String()
}
