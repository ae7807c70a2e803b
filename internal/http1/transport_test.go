package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"mcpgateway/internal/polltest"
)

// testTime bounds every wait of a test.
const testTime = 10 * time.Second

const testMaxHead = 256 << 10

// rawServer is a TCP server whose HTTP bytes the test writes.
type rawServer struct {
	url   *url.URL
	tr    *Transport
	conns atomic.Int32 // accepted
	posts atomic.Int32 // requests that arrived whole
}

// raw starts a server. It answers the n-th request, counted from 0 over all
// connections, with the bytes that answer returns, and closes the connection if last
// is true.
func raw(t *testing.T, answer func(n int) (data string, last bool)) *rawServer {
	s := &rawServer{}
	s.serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			data, last := answer(int(s.posts.Add(1)) - 1)
			if _, err := io.WriteString(c, data); err != nil || last {
				return
			}
		}
	})
	return s
}

// newTransport returns a Transport whose http.Transport refuses every request.
func newTransport() *Transport {
	return New(&http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: testMaxHead,
	})
}

// serve passes each connection to on.
func (s *rawServer) serve(t testing.TB, on func(c net.Conn)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/mcp"}
	s.tr = newTransport()
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			go func() {
				defer c.Close()
				on(c)
			}()
		}
	}()
	t.Cleanup(func() {
		s.tr.CloseIdleConnections()
		l.Close()
		<-served
	})
}

// testBody is a request body that records how much of it was written.
type testBody struct {
	text    []byte
	written int
}

func (b *testBody) Read([]byte) (int, error) { return 0, errors.New("the transport must use WriteTo") }

func (b *testBody) Close() error { return nil }

func (b *testBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.text)
	b.written += n
	return int64(n), err
}

// request returns a POST with a body of size bytes.
func (s *rawServer) request(ctx context.Context, size int) (*http.Request, *testBody) {
	b := &testBody{text: bytes.Repeat([]byte("x"), size)}
	r := (&http.Request{
		Method: http.MethodPost, URL: s.url, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: b, ContentLength: int64(size), GetBody: func() (io.ReadCloser, error) { return b, nil },
	}).WithContext(ctx)
	return r, b
}

// post sends a request and reads the whole response. It reports whether the whole
// body was written.
func (s *rawServer) post(ctx context.Context, size int) (status int, body string, whole bool, err error) {
	r, b := s.request(ctx, size)
	resp, err := s.tr.RoundTrip(r)
	if err != nil {
		return 0, "", b.written == size, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), b.written == size, err
}

// get sends a request without a body.
func (s *rawServer) get(t *testing.T) *http.Response {
	t.Helper()
	resp, err := s.tr.RoundTrip((&http.Request{Method: http.MethodGet, URL: s.url, Header: http.Header{}}).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (s *rawServer) origin() *origin {
	s.tr.mu.Lock()
	defer s.tr.mu.Unlock()
	return s.tr.origins[s.url.Host]
}

func (s *rawServer) idle() int {
	o := s.origin()
	s.tr.mu.Lock()
	defer s.tr.mu.Unlock()
	return len(o.idle)
}

// takeIdle takes an idle connection.
func (s *rawServer) takeIdle() *conn {
	r, _ := s.request(context.Background(), 1)
	_, c := s.tr.idleConn(r)
	return c
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Each request gets its own response or an error, whatever the server sends.
func TestResponses(t *testing.T) {
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
	for name, tc := range map[string]struct {
		answer string
		open   bool   // the server leaves the connection open
		want   string // status and body, or the beginning of an error
		kept   bool   // the connection serves the next request
	}{
		"length":                {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"no reason":             {answer: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"no body":               {answer: "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", open: true, want: "202 ", kept: true},
		"204":                   {answer: "HTTP/1.1 204 No Content\r\n\r\n", open: true, want: "204 ", kept: true},
		"204 with a length":     {answer: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", open: true, want: "204 ", kept: true},
		"304":                   {answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", open: true, want: "304 ", kept: true},
		"same length twice":     {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"lines end with LF":     {answer: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", open: true, want: "200 hello", kept: true},
		"folded header":         {answer: "HTTP/1.1 200 OK\r\nX: a\r\n  b\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"chunks":                {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", open: true, want: "200 hello", kept: true},
		"trailers":              {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", open: true, want: "200 hello", kept: true},
		"chunks and a length":   {answer: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", open: true, want: "200 hello"},
		"long header":           {answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 100<<10) + "\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"1xx responses first":   {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"body until EOF":        {answer: "HTTP/1.1 200 OK\r\n\r\nhello", want: "200 hello"},
		"close":                 {answer: "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello"},
		"HTTP/1.0":              {answer: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello"},
		"HTTP/1.0, kept":        {answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"switching protocols":   {answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxxxx", open: true, want: "101 "},
		"two answers":           {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", open: true, want: "200 hello"},
		"more than the length":  {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\n", open: true, want: "200 hello"},
		"body without a length": {answer: "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", open: true, want: "202 "},

		"garbage":                         {answer: "SSH-2.0-OpenSSH_9.2\r\n\r\n", open: true, want: "malformed HTTP response"},
		"another protocol":                {answer: "220 mail.test ESMTP\r\n", open: true, want: "malformed HTTP response"},
		"another version":                 {answer: "HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n", open: true, want: "malformed HTTP response"},
		"invalid status":                  {answer: "HTTP/1.1 2e0 OK\r\nContent-Length: 0\r\n\r\n", open: true, want: "malformed HTTP response"},
		"an empty first line":             {answer: "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", open: true, want: "malformed HTTP response"},
		"no colon":                        {answer: "HTTP/1.1 200 OK\r\nContent-Length 0\r\n\r\n", open: true, want: "malformed HTTP response"},
		"space before colon":              {answer: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", open: true, want: "malformed HTTP response"},
		"control characters":              {answer: "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 0\r\n\r\n", open: true, want: "malformed HTTP response"},
		"folded first header":             {answer: "HTTP/1.1 200 OK\r\n X: y\r\n\r\n", open: true, want: "malformed HTTP response"},
		"two lengths":                     {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", open: true, want: `malformed HTTP response: Content-Length ["5" "6"]`},
		"negative length":                 {answer: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", open: true, want: `malformed HTTP response: Content-Length ["-1"]`},
		"length with a sign":              {answer: "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", open: true, want: `malformed HTTP response: Content-Length ["+5"]`},
		"huge length":                     {answer: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", open: true, want: `malformed HTTP response: Content-Length ["9223372036854775808"]`},
		"another coding":                  {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", open: true, want: `unsupported transfer encoding ["gzip, chunked"]`},
		"chunks in HTTP/1.0":              {answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", open: true, want: `unsupported transfer encoding ["chunked"]`},
		"huge head":                       {answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 2*testMaxHead) + "\r\n\r\n", open: true, want: errHeadTooLarge.Error()},
		"many lines":                      {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxLines) + "\r\n", open: true, want: errTooManyLines.Error()},
		"maximum of lines":                {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxLines-2) + "Content-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"many bare lines":                 {answer: "HTTP/1.1 200 OK\n" + strings.Repeat("\r\r\n", maxLines) + "\n", open: true, want: errTooManyLines.Error()},
		"204 with a body":                 {answer: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n", open: true, want: "204 "},
		"lengths in one line":             {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", open: true, want: `malformed HTTP response: Content-Length ["5, 5"]`},
		"two codings":                     {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", open: true, want: `unsupported transfer encoding ["chunked" "identity"]`},
		"coding with a control character": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", open: true, want: "malformed HTTP response"},
		"a huge chunk":                    {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", open: true, want: "http chunk length too large"},
		"more after a chunk":              {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", open: true, want: "malformed chunked encoding"},
		"a head without end":              {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", testMaxHead/1000), open: true, want: errHeadTooLarge.Error()},
		"endless 1xx":                     {answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", testMaxHead/8), open: true, want: errHeadTooLarge.Error()},
		"nothing":                         {answer: "", want: "unexpected EOF"},
		"part of a head":                  {answer: "HTTP/1.1 200 OK\r\nContent-", want: "unexpected EOF"},
		"part of a body":                  {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", want: "unexpected EOF"},
		"part of a chunk":                 {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", want: "unexpected EOF"},
		"no last chunk":                   {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", want: "unexpected EOF"},
		"no end of the chunks":            {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", want: "unexpected EOF"},
		"invalid chunk size":              {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", open: true, want: "invalid byte in chunk length"},
		"trailers without end":            {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", maxTrailers), open: true, want: errHeadTooLarge.Error()},
		"empty chunk size":                {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n", open: true, want: "empty hex number for chunk length"},
	} {
		t.Run(name, func(t *testing.T) {
			s := raw(t, func(n int) (string, bool) {
				if n == 0 {
					return tc.answer, !tc.open
				}
				return good, false
			})
			ctx, cancel := context.WithTimeout(t.Context(), testTime)
			defer cancel()
			status, body, whole, err := s.post(ctx, 10)
			got := fmt.Sprint(status, " ", body)
			if err != nil {
				got = err.Error()
			}
			equal(t, "outcome", got, tc.want)
			equal(t, "written whole", whole, true)
			equal(t, "requests", s.posts.Load(), 1)
			equal(t, "reused", s.idle() == 1, tc.kept)

			status, body, _, err = s.post(ctx, 10)
			equal(t, "next answer", fmt.Sprint(status, " ", body, " ", err), "200 good <nil>")
			equal(t, "requests in total", s.posts.Load(), 2)
			equal(t, "one connection", s.conns.Load() == 1, tc.kept)
		})
	}
}

// The transport notices bytes and closed connections between two requests before it
// sends the next request.
func TestBetweenRequests(t *testing.T) {
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
	for name, after := range map[string]string{"closed": "", "sends bytes": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			s := &rawServer{}
			s.serve(t, func(c net.Conn) {
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					first := s.posts.Add(1) == 1
					io.WriteString(c, good)
					if first {
						<-next
						if after == "" {
							return
						}
						io.WriteString(c, after)
					}
				}
			})
			_, body, _, err := s.post(t.Context(), 10)
			equal(t, "first answer", fmt.Sprint(body, err), "good<nil>")
			c := s.takeIdle()
			close(next)
			polltest.Until(t, "the check notices the connection", func() bool { return !c.check.alive() })
			// The check has read the first byte. The other bytes have no effect either.
			s.tr.put(c)
			_, body, _, err = s.post(t.Context(), 10)
			equal(t, "second answer", fmt.Sprint(body, err), "good<nil>")
			equal(t, "connections", s.conns.Load(), 2)
			equal(t, "requests", s.posts.Load(), 2)
		})
	}
}

// failing is a connection whose writes fail after a number of bytes.
type failing struct {
	*net.TCPConn
	after int
}

func (f failing) Write(b []byte) (int, error) {
	n, _ := f.TCPConn.Write(b[:min(f.after, len(b))])
	return n, errors.New("broken")
}

// A request is sent again on another connection only if none of it was written.
func TestWrites(t *testing.T) {
	for _, tc := range []struct {
		name    string
		written int
		answer  string // answer of the server to the broken request
		want    string
		whole   bool
	}{
		{"nothing", 0, "", "200 good <nil>", true},
		{"a byte", 1, "", "0  broken", false},
		{"all but a byte", 1000, "", "0  broken", false},
		{"all", 1 << 20, "", "0  broken", true},
		{"a part, refused with 413", 1000, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "413 no <nil>", false},
		{"a part, answered with 200", 1000, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "0  broken", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &rawServer{}
			s.serve(t, func(c net.Conn) {
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if s.posts.Add(1) == 2 && tc.answer != "" {
						io.WriteString(c, tc.answer)
						io.Copy(io.Discard, c)
						return
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						return
					}
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
				}
			})
			if _, _, _, err := s.post(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			c := s.takeIdle()
			c.Conn = failing{c.Conn.(*net.TCPConn), tc.written}
			s.tr.put(c)
			if tc.name == "all but a byte" {
				c.Conn = failing{c.Conn.(failing).TCPConn, requestSize(t, s, 2000) - 1}
			}
			status, body, whole, err := s.post(t.Context(), 2000)
			equal(t, "outcome", fmt.Sprint(status, " ", body, " ", err), tc.want)
			equal(t, "written whole", whole, tc.whole)
			equal(t, "reused", s.idle() == 1, tc.written == 0)
		})
	}
}

func requestSize(t *testing.T, s *rawServer, body int) int {
	c := &conn{}
	r, _ := s.request(t.Context(), body)
	if err := c.compose(r, nil); err != nil {
		t.Fatal(err)
	}
	return len(c.out) + body
}

// The end of the context ends a request in every phase, and the server sees the
// closed connection.
func TestCancel(t *testing.T) {
	for name, before := range map[string]string{
		"before the head": "", "in the head": "HTTP/1.1 200 OK\r\nConte", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
		"in a stream": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			s := &rawServer{}
			s.serve(t, func(c net.Conn) {
				r, _ := http.ReadRequest(bufio.NewReader(c))
				io.Copy(io.Discard, r.Body)
				io.WriteString(c, before)
				cancel()
				io.Copy(io.Discard, c)
				close(ended)
			})
			_, _, _, err := s.post(ctx, 10)
			if err == nil {
				t.Error("no error")
			}
			select {
			case <-ended:
			case <-time.After(testTime):
				t.Fatal("the server does not see the closed connection")
			}
			equal(t, "idle", s.idle(), 0)
		})
	}
}

// A body may be closed while another goroutine reads it. Closing it again after the
// connection serves another request has no effect.
func TestClose(t *testing.T) {
	release := make(chan struct{})
	s := raw(t, func(n int) (string, bool) {
		if n == 0 {
			return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false
		}
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false
	})
	first := s.get(t)
	if _, err := io.ReadAll(first.Body); err != nil {
		t.Fatal(err)
	}
	second := s.get(t)
	first.Body.Close()
	if n, err := first.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read after the end gave %d bytes, %v", n, err)
	}
	five := make([]byte, 5)
	if _, err := io.ReadFull(second.Body, five); err != nil || string(five) != "hello" {
		t.Errorf("the second body: %q, %v", five, err)
	}
	read := make(chan error)
	go func() {
		close(release)
		_, err := second.Body.Read(five)
		read <- err
	}()
	<-release
	second.Body.Close()
	if err := <-read; err == nil {
		t.Error("a closed body returned data")
	}
	equal(t, "connections", s.conns.Load(), 1)
	equal(t, "idle", s.idle(), 0)
}

// The transport keeps at most maxIdle idle connections and closes old ones.
func TestSweep(t *testing.T) {
	s := raw(t, func(int) (string, bool) { return "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", false })
	s.tr.maxIdle = 2
	var held []*http.Response
	for range 3 {
		held = append(held, s.get(t))
	}
	for _, r := range held {
		io.ReadAll(r.Body)
	}
	equal(t, "idle", s.idle(), 2)
	s.tr.sweep()
	equal(t, "idle after the first sweep", s.idle(), 2)
	s.origin().idle[0].since = time.Now().Add(-s.tr.next.IdleConnTimeout)
	s.tr.sweep()
	equal(t, "idle after the sweep of an old one", s.idle(), 1)
	last := s.get(t)
	s.tr.CloseIdleConnections()
	io.ReadAll(last.Body)
	equal(t, "idle after CloseIdleConnections", s.idle(), 0)
	io.ReadAll(s.get(t).Body)
	equal(t, "idle after another request", s.idle(), 1)
}

// The fields of a response have the values that http.Transport sets.
func TestResponseFields(t *testing.T) {
	theirs := &http.Transport{DisableCompression: true}
	defer theirs.CloseIdleConnections()
	for _, answer := range []string{
		"HTTP/1.1 404 Not  Found\r\nContent-Length: 4\r\nX-A: 1\r\nx-a: 2\r\n\r\ngood",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ngood",
	} {
		s := raw(t, func(int) (string, bool) { return answer, true })
		var shown []string
		for _, tr := range []http.RoundTripper{s.tr, theirs} {
			r, err := tr.RoundTrip((&http.Request{Method: http.MethodGet, URL: s.url, Header: http.Header{}}).WithContext(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			io.ReadAll(r.Body)
			r.Body.Close()
			shown = append(shown, fmt.Sprint(r.Status, r.StatusCode, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Header, r.ContentLength, r.TransferEncoding, r.Close, r.Request.URL))
		}
		equal(t, answer, shown[0], shown[1])
	}
}

// The GotConn hook distinguishes new from reused connections. It is not called if
// there is no connection.
func TestGotConn(t *testing.T) {
	s := raw(t, func(n int) (string, bool) { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", n == 1 })
	got := ""
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { got += fmt.Sprint(i.Reused, " ") }})
	for range 2 {
		r, _ := s.request(ctx, 1)
		if _, err := s.tr.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := s.request(ctx, 1)
	r.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	if _, err := s.tr.RoundTrip(r); err == nil {
		t.Error("a response without a request")
	}
	equal(t, "reused", got, "false true ")
}

// A header value with a line break is not sent, and its request fails.
func TestHeaders(t *testing.T) {
	s := raw(t, func(int) (string, bool) { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false })
	for _, h := range []http.Header{{"X": {"a\r\nY: b"}}, {"X": {"a\nb"}}, {"X": {"a\x00"}}, {"X Y": {"a"}}, {"X:": {"a"}}, {"": {"a"}}} {
		r, _ := s.request(t.Context(), 2)
		r.Header = h
		if _, err := s.tr.RoundTrip(r); err == nil {
			t.Errorf("%q was sent", h)
		}
	}
	equal(t, "requests", s.posts.Load(), 0)
}

// http.Transport receives every request that this package does not send.
func TestTakes(t *testing.T) {
	post := func(change func(r *http.Request)) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader("{}"))
		change(r)
		return r
	}
	to := func(u string) func(r *http.Request) {
		return func(r *http.Request) {
			r.URL, _ = url.Parse(u)
			r.Host = ""
		}
	}
	for name, tc := range map[string]struct {
		change func(r *http.Request)
		want   bool
	}{
		"IPv4":            {to("http://127.0.0.1:80/other"), true},
		"IPv6":            {to("http://[::1]:80/mcp"), true},
		"a zone":          {to("http://[fe80::1%25lo]/mcp"), false},
		"not ASCII":       {to("http://b\u00fccher.example/mcp"), false},
		"through a proxy": {to("http://proxied.example/mcp"), false},
		"TLS":             {to("https://127.0.0.1/mcp"), false},
		"a large body":    {func(r *http.Request) { r.ContentLength = maxBody + 1 }, false},
		"unknown length":  {func(r *http.Request) { r.ContentLength = -1 }, false},
		"no body":         {func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }, true},
		"HEAD":            {func(r *http.Request) { r.Method = http.MethodHead }, false},
		"another host":    {func(r *http.Request) { r.Host = "other.example" }, false},
		"close":           {func(r *http.Request) { r.Close = true }, false},
		"upgrade":         {func(r *http.Request) { r.Header.Set("Connection", "upgrade") }, false},
		"expect":          {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
		"odd method":      {func(r *http.Request) { r.Method = "A B" }, false},
	} {
		tr := newTransport()
		tr.next.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Host == "proxied.example" {
				return url.Parse("http://proxy.example")
			}
			return nil, nil
		}
		r := post(tc.change)
		got := tr.takes(r)
		if got {
			o, _ := tr.idleConn(r)
			got = o.direct
		}
		equal(t, name, got, tc.want && canCheck)
	}
	compressing := New(&http.Transport{})
	equal(t, "compression", compressing.takes(post(func(*http.Request) {})), false)
}

// A body that does not implement io.WriterTo is sent whole. A body of another length
// than announced is an error.
func TestReaderBody(t *testing.T) {
	got := make(chan string, 2)
	s := &rawServer{}
	s.serve(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if data, err := io.ReadAll(r.Body); err == nil {
			got <- string(data)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	r, _ := s.request(t.Context(), 5)
	r.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader("hello")))
	resp, err := s.tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "status", resp.StatusCode, 200)
	equal(t, "body", <-got, "hello")
	for name, body := range map[string]io.Reader{
		"short reader": io.MultiReader(strings.NewReader("hell")), "short": &testBody{text: []byte("hell")}, "long": &testBody{text: []byte("hello!")},
	} {
		r, _ := s.request(t.Context(), 5)
		r.Body = io.NopCloser(body)
		if _, err := s.tr.RoundTrip(r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// maxAllocs bounds the allocations of one request over an idle connection, the
// request itself excluded.
const maxAllocs = 6

func TestAllocations(t *testing.T) {
	s := &rawServer{}
	s.serve(t, serveFast)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, b := s.request(ctx, 2)
	buf := make([]byte, 2)
	allocs := testing.AllocsPerRun(300, func() {
		b.written = 0
		resp, err := s.tr.RoundTripWith(r, Field{"X-Request-Id", "n9g168jw84dhr5tqjffy"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, buf); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f allocations a request", allocs)
	if allocs > maxAllocs {
		t.Errorf("%.0f allocations a request, want at most %d", allocs, maxAllocs)
	}
}
