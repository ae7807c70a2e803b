package matrix

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// The keys of a client that works and of one that misbehaves.
const (
	goodKey = "key-of-the-client-that-works"
	badKey  = "key-of-the-client-that-misbehaves"
)

// sessionIdle is how long the gateway of these tests keeps a session that nobody uses.
const sessionIdle = "15s"

// maxSessions is the limits.max_sessions of the gateway of these tests.
const maxSessions = 1000

// abused is a gateway with a client that works.
type abused struct {
	*gateway
	addr string
	good *raw.Client // of the modern era

	mu     sync.Mutex
	unread []net.Conn // connections whose client reads nothing
}

// startAbused starts a gateway in front of one upstream of the modern era.
func startAbused(t *testing.T, more rig.Config) *abused {
	t.Helper()
	f := &fleet{certificates: certificates(t)}
	s := newServer(t, f, "bystander", modern)
	waitServing(t, process.Start(t, *serving(t, s)))
	entry := func(id, key string) rig.Config {
		return rig.Config{"id": id, "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(key)))}
	}
	config := rig.Config{
		"auth": rig.Config{"mode": "api-key", "api_keys": []rig.Config{entry("good", goodKey), entry("bad", badKey)}}, "policy": rig.Config{"default": "allow"},
		"limits": rig.Config{"max_message": maxMessage, "session_idle": sessionIdle, "max_sessions": maxSessions},
	}
	for key, value := range more {
		config[key] = value
	}
	g := startGateway(t, f, rig.Upstreams{s.Name: s.config}, config)
	a := &abused{gateway: g, addr: g.base["listen"].(string)}
	if _, secure := more["tls"]; !secure {
		a.good = a.client(t, goodKey, raw.Modern)
		a.check(t)
	}
	return a
}

// client connects a client with a key.
func (a *abused) client(t testing.TB, key, revision string) *raw.Client {
	t.Helper()
	c, err := a.open(bounded(t), key, revision)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *abused) open(ctx context.Context, key, revision string) (*raw.Client, error) {
	return raw.OpenWith(ctx, a.URL, revision, http.Header{"Authorization": {"Bearer " + key}})
}

// check verifies that the client that works gets an answer.
func (a *abused) check(t *testing.T) {
	t.Helper()
	answer, err := work(bounded(t), a.good, bystander, "hello", true)
	if err := checkAnswer(answer, err, "hello"); err != nil {
		t.Errorf("the client that works: %v", err)
	}
}

const bystander = "bystander-" + modern

// dial opens a connection of the client that misbehaves.
func (a *abused) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	return c
}

// head is the beginning of a request of the client that misbehaves, without the length of the body and the blank line.
const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + badKey + "\r\nContent-Type: application/json\r\n" +
	"Accept: application/json, text/event-stream\r\n"

// callBody is a modern call that is answered with the text, and its headers.
func callBody(text string) (headers, body string) {
	body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + bystander + `__work","arguments":{"text":"` + text + `"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + raw.Modern + `","io.modelcontextprotocol/clientInfo":{"name":"bad","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	return fmt.Sprintf("MCP-Protocol-Version: %s\r\nMcp-Method: tools/call\r\nMcp-Name: %s__work\r\nContent-Length: %d\r\n\r\n", raw.Modern, bystander, len(body)), body
}

// status reads the status of a response; 0 means that the connection ended without one.
func status(c net.Conn) int {
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

// checkEnd requires that the gateway ends the connection, with one of these statuses or, if the client still sent, without any.
func checkEnd(t *testing.T, c net.Conn, want ...int) {
	t.Helper()
	if got := status(c); !slices.Contains(want, got) && got != 0 {
		t.Errorf("status %d, want %d", got, want)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is still open: %v", err)
	}
}

// clientFault is a way in which a client misbehaves, and what the gateway does, for the page.
type clientFault struct {
	does, bound string
	run         func(*testing.T, *abused) // returns when the gateway has done it
	secure      bool                      // over TLS
}

// abuses happen at the same time.
var abuses = []clientFault{
	{"reads no answer", "waits 30 s for each 256 KiB, 5 s if the client's share of unread answers is used up, then ends the connection", readNothing, false},
	{"sends headers byte by byte", "ends the connection after 10 s", dripHeaders, false},
	{"sends a body byte by byte", "answers HTTP 408 after 20 s; a body must then arrive at 32 KiB a second", dripBody, false},
	{"sends half a body and ends", "forgets the request", halfBodyThenEnd, false},
	{"sends half a body and falls silent", "answers HTTP 408 after 20 s", halfBodyThenSilence, false},
	{"sends 10,000 headers", "answers HTTP 431 at 64 KiB of headers", manyHeaders, false},
	{"sends a header of 1 MiB", "answers HTTP 431 at 64 KiB of headers", hugeHeaders, false},
	{"never ends an upload", "answers HTTP 413 at `limits.max_message`, or 429 if the client's share of request bodies is used up, and ends the connection", endlessUpload, false},
	{"opens its stream again and again, also after events that never were", "serves the newest stream, and refuses the unknown events", reconnect, false},
	{"uses a session that it has ended", "answers HTTP 404", useEndedSession, false},
	{"opens 1,000 sessions and leaves them", "refuses sessions over the client's share of `limits.max_sessions` with HTTP 429, and ends the others after `limits.session_idle`", leaveSessions, false},
}

// floods happen one by one, each at a gateway of its own.
var floods = []clientFault{
	{"keeps 10,000 connections open after a call on each", "serves them, as long as the limit of open files allows; unused ones end after 3 min", keepConnections, false},
	{"cancels HTTP/2 requests as fast as it sends them", "runs a bounded number of them at a time", resetStreams, true},
}

// TestClientFaults lets clients misbehave in every way at the same time. A client that works gets all its answers meanwhile, and afterwards the gateway
// holds no more than before.
func TestClientFaults(t *testing.T) {
	t.Parallel()
	a := startAbused(t, nil)
	a.client(t, goodKey, raw.Legacy)
	a.awaitSessions(t, 0)
	before := observe.Settled(t, a.Gateway)
	stop := a.busy(t)
	t.Run("all", func(t *testing.T) {
		for _, abuse := range abuses {
			t.Run(abuse.does, func(t *testing.T) { t.Parallel(); abuse.run(t, a) })
		}
	})
	stop()
	a.awaitSessions(t, 0)
	observe.CheckReturn(t, a.Gateway, before)
	for _, c := range a.unread {
		c.Close()
	}
	a.checkMemory(t)
	a.check(t)
}

// maxHeap bounds what the gateway keeps on its heap when all misbehaving clients are gone.
const maxHeap = 48 << 20

func (a *abused) checkMemory(t *testing.T) {
	t.Helper()
	polltest.UntilNil(t, "the heap", func() error {
		if _, _, err := observe.Admin(a.Gateway, "/debug/pprof/heap?gc=1"); err != nil {
			return err
		}
		heap, err := observe.Metric(a.Gateway, "go_memstats_heap_inuse_bytes")
		if err == nil && heap > maxHeap {
			err = fmt.Errorf("%.1f MiB in use, want at most %d MiB", heap/(1<<20), maxHeap>>20)
		}
		return err
	})
}

// awaitSessions waits until this number of legacy sessions is left.
func (a *abused) awaitSessions(t *testing.T, want float64) {
	t.Helper()
	polltest.UntilNil(t, "the end of the sessions", func() error {
		n, err := observe.Metric(a.Gateway, `mcp_gateway_sessions{era="legacy"}`)
		if err == nil && n > want {
			err = fmt.Errorf("%v sessions", n)
		}
		return err
	})
}

// busy calls the upstream all the time until stop is called: every call must be answered right.
func (a *abused) busy(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		pace := time.NewTicker(bystanderPace)
		defer pace.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			answer, err := work(ctx, a.good, bystander, strconv.Itoa(n), n%2 == 0)
			if err = checkAnswer(answer, err, strconv.Itoa(n)); err != nil && ctx.Err() == nil {
				t.Errorf("the client that works, call %d: %v", n, err)
				return
			}
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// readNothing requests large answers over many connections and reads none of them. The client keeps the connections, and the gateway must not.
func readNothing(t *testing.T, a *abused) {
	headers, body := callBody(strings.Repeat("x", maxMessage-4<<10))
	for range 10 {
		c, err := net.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		a.unread = append(a.unread, c)
		a.mu.Unlock()
		if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		// More than the buffers of the kernel hold. The gateway takes the next request when the answer is written.
		go io.WriteString(c, strings.Repeat(head+headers+body, 16))
	}
}

func dripHeaders(t *testing.T, a *abused) {
	c := a.dial(t)
	dripUntilEnd(c, head)
	checkEnd(t, c, http.StatusRequestTimeout)
}

func dripBody(t *testing.T, a *abused) {
	headers, body := callBody("hello")
	c := a.dial(t)
	if _, err := io.WriteString(c, head+headers); err != nil {
		t.Fatal(err)
	}
	dripUntilEnd(c, body)
	checkEnd(t, c, http.StatusRequestTimeout)
}

// dripUntilEnd writes a byte every second until the gateway ends the connection.
func dripUntilEnd(c net.Conn, text string) {
	for i := range text {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		c.SetReadDeadline(time.Now().Add(time.Second))
		_, err := c.Read(make([]byte, 1))
		c.SetReadDeadline(time.Now().Add(within))
		if !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
			return
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func halfBodyThenEnd(t *testing.T, a *abused) {
	headers, body := callBody("hello")
	for range 200 {
		c := a.dial(t)
		if _, err := io.WriteString(c, head+headers+body[:len(body)/2]); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

func halfBodyThenSilence(t *testing.T, a *abused) {
	headers, body := callBody("hello")
	var conns []net.Conn
	for range 100 {
		c := a.dial(t)
		if _, err := io.WriteString(c, head+headers+body[:len(body)/2]); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		checkEnd(t, c, http.StatusRequestTimeout)
	}
}

func manyHeaders(t *testing.T, a *abused) {
	var flood strings.Builder
	for n := range 10_000 {
		fmt.Fprintf(&flood, "X-%d: y\r\n", n)
	}
	for range 100 {
		c := a.dial(t)
		io.WriteString(c, head+flood.String()+"\r\n") // the gateway may end the connection before
		checkEnd(t, c, http.StatusRequestHeaderFieldsTooLarge)
	}
}

func hugeHeaders(t *testing.T, a *abused) {
	for range 100 {
		c := a.dial(t)
		io.WriteString(c, head+"X-Huge: "+strings.Repeat("x", maxMessage)+"\r\n\r\n") // as in manyHeaders
		checkEnd(t, c, http.StatusRequestHeaderFieldsTooLarge)
	}
}

func endlessUpload(t *testing.T, a *abused) {
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
	for range 10 {
		c := a.dial(t)
		if _, err := io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		sent := 0
		for ; sent < 64*maxMessage; sent += len(chunk) {
			if _, err := io.WriteString(c, chunk); err != nil {
				break
			}
		}
		if sent >= 64*maxMessage {
			t.Errorf("the gateway took %d bytes", sent)
		}
		checkEnd(t, c, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests) // 429: the bodies of this client hold its share
	}
}

// reconnect opens the stream of a session again and again, also after events that never were.
func reconnect(t *testing.T, a *abused) {
	c := a.client(t, badKey, raw.Legacy)
	for n := range 300 {
		request, err := http.NewRequestWithContext(bounded(t), http.MethodGet, a.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{
			"Authorization": {"Bearer " + badKey}, "Accept": {"text/event-stream"}, "Mcp-Session-Id": {c.Session()}, "Mcp-Protocol-Version": {raw.Legacy},
		}
		if n%2 == 1 {
			request.Header.Set("Last-Event-ID", fmt.Sprint("event-", n))
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		refused := response.StatusCode == http.StatusTooManyRequests // the client's share is used up: streams whose end the gateway has not noticed, and sessions
		if n%2 == 0 && response.StatusCode != http.StatusOK && !refused || n%2 == 1 && response.StatusCode == http.StatusOK {
			t.Fatalf("stream %d: status %d", n, response.StatusCode)
		}
	}
}

func useEndedSession(t *testing.T, a *abused) {
	c := a.client(t, badKey, raw.Legacy)
	request, err := http.NewRequestWithContext(bounded(t), http.MethodDelete, a.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + badKey}, "Mcp-Session-Id": {c.Session()}, "Mcp-Protocol-Version": {raw.Legacy}}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for range 100 {
		answer, err := work(bounded(t), c, bystander, "hello", false)
		if err != nil || answer.Status != http.StatusNotFound {
			t.Fatalf("a request after the end of the session: status %d, error %v, want 404", answer.Status, err)
		}
	}
}

// leaveSessions opens sessions until the gateway refuses, and leaves them. Another client can still open one.
func leaveSessions(t *testing.T, a *abused) {
	for n := 0; ; n++ {
		_, err := a.open(bounded(t), badKey, raw.Legacy)
		if fault, ok := errors.AsType[*raw.Fault](err); ok && strings.Contains(fault.Message, "session") {
			t.Logf("%d sessions were opened: %v", n, fault)
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == maxSessions {
			t.Fatalf("the gateway opened %d sessions for one client", n)
		}
	}
	a.client(t, goodKey, raw.Legacy)
}

// TestFloods verifies that nothing is left of a flood.
func TestFloods(t *testing.T) {
	file := filepath.Join(certificates(t), "good.pem")
	for _, flood := range floods {
		t.Run(flood.does, func(t *testing.T) {
			t.Parallel()
			more := rig.Config{}
			if flood.secure {
				more["tls"] = rig.Config{"cert": file, "key": file}
			}
			a := startAbused(t, more)
			before := observe.Settled(t, a.Gateway)
			flood.run(t, a)
			observe.CheckReturn(t, a.Gateway, before)
			a.checkMemory(t)
		})
	}
}

// keepConnections opens connections that each make a call and then stay open. Calls of others go on.
func keepConnections(t *testing.T, a *abused) {
	count := maxConnections(t)
	headers, body := callBody("hello")
	conns := make([]net.Conn, count)
	var wg sync.WaitGroup
	const dialers = 50
	for d := range dialers {
		wg.Go(func() {
			for n := d; n < count; n += dialers {
				c, err := net.Dial("tcp", a.addr)
				if err == nil {
					conns[n] = c
					_, err = io.WriteString(c, head+headers+body)
				}
				if err == nil {
					if got := status(c); got != http.StatusOK {
						err = fmt.Errorf("status %d", got)
					}
				}
				if err != nil {
					t.Errorf("connection %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for range 100 {
		a.check(t)
	}
	held, err := observe.ResourcesOf(a.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	if held.Files < count {
		t.Errorf("the gateway has %d files open, want %d connections", held.Files, count)
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}

// maxConnections returns how many connections this machine allows, at most 10,000.
func maxConnections(t *testing.T) int {
	t.Helper()
	const want, others = 10_000, 500
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < want+others && limit.Cur < limit.Max {
		limit.Cur = min(limit.Max, want+others)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	if limit.Cur < want+others {
		t.Logf("WARNING: this machine allows %d open files: %d connections instead of %d", limit.Cur, int(limit.Cur)-others, want)
	}
	return int(min(want, limit.Cur-others))
}

// resetStreams begins HTTP/2 requests and cancels them at once, over many connections (CVE-2023-44487). Calls of others go on.
func resetStreams(t *testing.T, a *abused) {
	ended := 0
	for range 20 {
		c, err := tls.Dial("tcp", a.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		if proto := c.ConnectionState().NegotiatedProtocol; proto != "h2" {
			t.Fatalf("the gateway speaks %q, want h2", proto)
		}
		c.SetDeadline(time.Now().Add(within))
		if err := rapidResets(c); err != nil {
			ended++
		}
		c.Close()
		other, err := tls.Dial("tcp", a.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		headers, body := callBody("hello")
		if _, err := io.WriteString(other, strings.Replace(head, badKey, goodKey, 1)+headers+body); err != nil {
			t.Fatal(err)
		}
		if got := status(other); got != http.StatusOK {
			t.Errorf("status %d for another client", got)
		}
		other.Close()
	}
	t.Logf("the gateway ended %d of 20 connections", ended)
}

// rapidResets sends requests and cancels each at once. It returns the error of the connection.
func rapidResets(c net.Conn) error {
	go io.Copy(io.Discard, c) // ends with the connection
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, 0, "")); err != nil {
		return err
	}
	// The static table of HPACK (RFC 7541, appendix A): :method POST, :scheme https; then literals of :path, :authority
	// and authorization.
	bearer := "Bearer " + badKey
	fields := "\x83\x87\x04\x04/mcp\x01\x09localhost\x0f\x08" + string(rune(len(bearer))) + bearer
	for n := range uint32(5000) {
		id := 2*n + 1
		if _, err := io.WriteString(c, frame(1, 4, id, fields)+frame(3, 0, id, "\x00\x00\x00\x08")); err != nil {
			return err
		}
	}
	return nil
}

// frame returns a frame of HTTP/2 (RFC 9113, section 4.1).
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
}
