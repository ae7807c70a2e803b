package http1server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"time"
)

var fuzzSeeds = []string{
	"POST /mcp HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nmcp-session-id: x\r\nContent-Length: 2\r\n\r\n{}",
	"GET /mcp HTTP/1.1\r\nHost: [::1]\r\nConnection: keep-alive\r\nX-A: 1\r\nx-a: 2\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 1\r\n x\r\n\r\na",
	"DELETE /mcp HTTP/1.1\nHost: h\n\n",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na\r\n\r\nGET /%41?b HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\nPragma: no-cache\r\nTe: trailers\r\n\r\n",
}

// FuzzRequest checks that net/http reads every head that is served here in the same way.
func FuzzRequest(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		at := bytes.Index(data, headEnd)
		if at < 0 || !knownMethod(data) {
			return
		}
		head := data[:at+len(headEnd)]
		c := newConn(new(Server), nopConn{}, nil)
		ours, err := newRequest(c, head)
		if err != nil {
			return
		}
		in := bufio.NewReader(bytes.NewReader(head))
		theirs, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		if in.Buffered() > 0 {
			t.Errorf("net/http leaves %d bytes of the head", in.Buffered())
		}
		for what, pair := range map[string][2]any{
			"method": {ours.Method, theirs.Method}, "URL": {ours.URL, theirs.URL}, "header": {ours.Header, theirs.Header},
			"host": {ours.Host, theirs.Host}, "length": {ours.ContentLength, theirs.ContentLength}, "close": {ours.Close, theirs.Close},
			"target": {ours.RequestURI, theirs.RequestURI}, "protocol": {ours.Proto, theirs.Proto},
			"version": {ours.ProtoMajor*10 + ours.ProtoMinor, theirs.ProtoMajor*10 + theirs.ProtoMinor},
			"codings": {len(ours.TransferEncoding), len(theirs.TransferEncoding)},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s: %v here, %v in net/http", what, pair[0], pair[1])
			}
		}
	})
}

// FuzzConnection checks that the handlers behind this package and behind net/http see the
// same requests, whatever a client sends on a connection.
func FuzzConnection(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed), uint8(0), false)
		f.Add([]byte(seed), uint8(7), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, reads bool) {
		if len(data) > 20_000 {
			return
		}
		ours := requestsSeen(t, data, int(piece), reads, func(h *http.Server) serverUnderTest { return New(h) })
		theirs := requestsSeen(t, data, int(piece), reads, func(h *http.Server) serverUnderTest { return h })
		if ours != theirs {
			t.Errorf("here:\n%s\nnet/http:\n%s", ours, theirs)
		}
	})
}

// requestsSeen returns what a handler sees of a connection on which data arrives in pieces.
func requestsSeen(t *testing.T, data []byte, piece int, reads bool, server func(*http.Server) serverUnderTest) string {
	var seen bytes.Buffer
	c := &scriptedConn{data: data, piece: piece, closed: make(chan struct{})}
	h := quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(&seen, "%s %q %s %q %v", r.Method, r.URL, r.Host, r.RequestURI, r.Header)
		if reads {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(&seen, " %q %v", body, err == nil)
		}
		seen.WriteByte('\n')
	}))
	s, l := server(h), make(memoryListener)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	l <- c
	<-c.closed
	s.Close()
	<-ended
	return seen.String()
}

// nopConn is a connection that nothing is sent on.
type nopConn struct{ net.Conn }

func (nopConn) LocalAddr() net.Addr { return nil }

// scriptedConn is a connection on which data arrives in pieces, and then its end.
type scriptedConn struct {
	nopConn
	mu     sync.Mutex
	data   []byte
	piece  int
	once   sync.Once
	closed chan struct{}
}

func (c *scriptedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	if c.piece > 0 {
		b = b[:min(len(b), c.piece)]
	}
	n := copy(b, c.data)
	c.data = c.data[n:]
	return n, nil
}
func (c *scriptedConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *scriptedConn) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *scriptedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scriptedConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptedConn) SetWriteDeadline(time.Time) error { return nil }
