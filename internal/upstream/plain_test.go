package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
)

// rawServer is a TCP server that a test speaks HTTP for, by hand.
type rawServer struct {
	url   *url.URL
	pool  *pool
	conns atomic.Int32 // accepted
	posts atomic.Int32 // requests that came whole
}

// raw starts a server that answers the n-th request, counted from 0 over all
// connections, with the bytes that answer returns, and closes the connection
// after it when that says so.
func raw(t *testing.T, answer func(n int) (data string, last bool)) *rawServer {
	s := rawConns(t, nil)
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

// rawConns starts a server whose connections are each given to on.
func rawConns(t *testing.T, on func(c net.Conn)) *rawServer {
	s := &rawServer{}
	if on != nil {
		s.serve(t, on)
	}
	return s
}

func (s *rawServer) serve(t *testing.T, on func(c net.Conn)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/mcp"}
	s.pool = newPool(&HTTPOptions{URL: s.url}, 4)
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
		s.pool.close()
		l.Close()
		<-served
	})
}

// post sends a request and reads the whole answer.
func (s *rawServer) post(ctx context.Context, size int) (status int, body string, gone bool, err error) {
	p := newPayload()
	defer p.release()
	p.buf = append(p.buf, strings.Repeat("x", size)...)
	a, err := s.pool.plain.do(ctx, http.MethodPost, s.url, newHeaders(http.Header{"Content-Type": {"text/plain"}}), p)
	if err != nil {
		return 0, "", p.gone.Load(), err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	return a.StatusCode, string(data), p.gone.Load(), err
}

func (s *rawServer) idle() int {
	s.pool.plain.mu.Lock()
	defer s.pool.plain.mu.Unlock()
	return len(s.pool.plain.idle)
}

// Whatever a server answers, the request gets that or an error, and the request
// after it its own answer.
func TestPlainAnswers(t *testing.T) {
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
		"more to come first":    {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"to the end":            {answer: "HTTP/1.1 200 OK\r\n\r\nhello", want: "200 hello"},
		"close":                 {answer: "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello"},
		"HTTP/1.0":              {answer: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello"},
		"HTTP/1.0, kept":        {answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"another protocol":      {answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxxxx", open: true, want: "101 "},
		"two answers":           {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", open: true, want: "200 hello"},
		"more than the length":  {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\n", open: true, want: "200 hello"},
		"body without a length": {answer: "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", open: true, want: "202 "},

		"garbage":              {answer: "SSH-2.0-OpenSSH_9.2\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"not even a head":      {answer: "220 mail.test ESMTP\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"another version":      {answer: "HTTP/3.7 200 OK\r\nContent-Length: 0\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"an odd status":        {answer: "HTTP/1.1 2e0 OK\r\nContent-Length: 0\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"an empty first line":  {answer: "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"no colon":             {answer: "HTTP/1.1 200 OK\r\nContent-Length 0\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"space before colon":   {answer: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"control characters":   {answer: "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 0\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"begins with a fold":   {answer: "HTTP/1.1 200 OK\r\n X: y\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"two lengths":          {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", open: true, want: `the content length ["5" "6"] is no length`},
		"negative length":      {answer: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", open: true, want: `the content length ["-1"] is no length`},
		"length with a sign":   {answer: "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", open: true, want: `the content length ["+5"] is no length`},
		"huge length":          {answer: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", open: true, want: `the content length ["9223372036854775808"] is no length`},
		"another coding":       {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", open: true, want: `the transfer encoding ["gzip, chunked"] is not chunked`},
		"chunks in HTTP/1.0":   {answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", open: true, want: `the transfer encoding ["chunked"] is not chunked`},
		"huge head":            {answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 2*maxHeaders) + "\r\n\r\n", open: true, want: errHeadTooLarge.Error()},
		"many lines":           {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxFields) + "\r\n", open: true, want: errTooManyFields.Error()},
		"as many as may be":    {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxFields-2) + "Content-Length: 5\r\n\r\nhello", open: true, want: "200 hello", kept: true},
		"many bare lines":      {answer: "HTTP/1.1 200 OK\n" + strings.Repeat("\r\r\n", maxFields) + "\n", open: true, want: errTooManyFields.Error()},
		"a body that differs":  {answer: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n", open: true, want: "204 "},
		"lengths in one line":  {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", open: true, want: `the content length ["5, 5"] is no length`},
		"two codings":          {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", open: true, want: `the transfer encoding ["chunked" "identity"] is not chunked`},
		"a coding with a tail": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", open: true, want: "the head of the answer is not HTTP/1.1"},
		"a huge chunk":         {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", open: true, want: "http chunk length too large"},
		"more after a chunk":   {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", open: true, want: "malformed chunked encoding"},
		"a head without end":   {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", maxHeaders/1000), open: true, want: errHeadTooLarge.Error()},
		"ever more to come":    {answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHeaders/8), open: true, want: errHeadTooLarge.Error()},
		"nothing":              {answer: "", want: "unexpected EOF"},
		"part of a head":       {answer: "HTTP/1.1 200 OK\r\nContent-", want: "unexpected EOF"},
		"part of a body":       {answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", want: "unexpected EOF"},
		"part of a chunk":      {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", want: "unexpected EOF"},
		"no last chunk":        {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", want: "unexpected EOF"},
		"no end of the chunks": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", want: "unexpected EOF"},
		"an odd chunk":         {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", open: true, want: "invalid byte in chunk length"},
		"trailers without end": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", maxTrailers), open: true, want: errHeadTooLarge.Error()},
		"a chunk of no size":   {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n", open: true, want: "empty hex number for chunk length"},
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
			status, body, gone, err := s.post(ctx, 10)
			got := fmt.Sprint(status, " ", body)
			if err != nil {
				got = err.Error()
			}
			equal(t, "outcome", got, tc.want)
			equal(t, "gone", gone, true)
			equal(t, "requests", s.posts.Load(), 1)
			equal(t, "kept", s.idle() == 1, tc.kept)

			status, body, _, err = s.post(ctx, 10)
			equal(t, "next answer", fmt.Sprint(status, " ", body, " ", err), "200 good <nil>")
			equal(t, "requests in all", s.posts.Load(), 2)
			equal(t, "one connection", s.conns.Load() == 1, tc.kept)
		})
	}
}

// What a server sends, or that it closes, between two requests is seen before
// the next one goes out.
func TestPlainBetweenRequests(t *testing.T) {
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
	for name, after := range map[string]string{"closed": "", "spoke": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"} {
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
			equal(t, "first", fmt.Sprint(body, err), "good<nil>")
			c := s.pool.plain.get()
			close(next)
			polltest.Until(t, "the connection is found out", func() bool { return !c.pulse.alive() })
			// The pulse has eaten the first byte; the rest must not matter either.
			s.pool.plain.put(c)
			_, body, _, err = s.post(t.Context(), 10)
			equal(t, "second", fmt.Sprint(body, err), "good<nil>")
			equal(t, "connections", s.conns.Load(), 2)
			equal(t, "requests", s.posts.Load(), 2)
		})
	}
}

// failing is a connection whose writes end after so many bytes.
type failing struct {
	*net.TCPConn
	after int
}

func (f failing) Write(b []byte) (int, error) {
	n, _ := f.TCPConn.Write(b[:min(f.after, len(b))])
	return n, errors.New("broken")
}

// A request of which nothing was written goes out on another connection, one of
// which anything was does not.
func TestPlainWrites(t *testing.T) {
	for _, tc := range []struct {
		name    string
		written int
		answer  string // of the server to the broken request
		want    string
		gone    bool
	}{
		{"nothing", 0, "", "200 good <nil>", true},
		{"a byte", 1, "", "0  broken", false},
		{"all but a byte", 1000, "", "0  broken", false},
		{"all", 1 << 20, "", "0  broken", true},
		{"a part, and refused", 1000, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "413 no <nil>", false},
		{"a part, and not refused", 1000, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", "0  broken", false},
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
			c := s.pool.plain.get()
			c.pooledConn.Conn = failing{c.pooledConn.Conn.(*net.TCPConn), tc.written}
			s.pool.plain.put(c)
			if tc.name == "all but a byte" {
				c.pooledConn.Conn = failing{c.pooledConn.Conn.(failing).TCPConn, requestSize(t, s, 2000) - 1}
			}
			status, body, gone, err := s.post(t.Context(), 2000)
			equal(t, "outcome", fmt.Sprint(status, " ", body, " ", err), tc.want)
			equal(t, "gone", gone, tc.gone)
			equal(t, "kept", s.idle() == 1, tc.written == 0)
		})
	}
}

func requestSize(t *testing.T, s *rawServer, body int) int {
	p := newPayload()
	defer p.release()
	p.buf = append(p.buf, make([]byte, body)...)
	c := &plainConn{}
	if err := c.compose(http.MethodPost, s.url, newHeaders(http.Header{"Content-Type": {"text/plain"}}), p); err != nil {
		t.Fatal(err)
	}
	return len(c.out)
}

// The end of the context ends a request, whatever it waits for, and the server
// learns of it.
func TestPlainCancel(t *testing.T) {
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
				t.Fatal("the server does not learn of it")
			}
			equal(t, "idle", s.idle(), 0)
		})
	}
}

// A body may be closed while somebody reads it, and closing it long after its
// end does no harm to whoever has the connection then.
func TestPlainClose(t *testing.T) {
	release := make(chan struct{})
	s := raw(t, func(n int) (string, bool) {
		if n == 0 {
			return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false
		}
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false
	})
	first, err := s.pool.plain.do(t.Context(), http.MethodGet, s.url, headers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(first.Body); err != nil {
		t.Fatal(err)
	}
	second, err := s.pool.plain.do(t.Context(), http.MethodGet, s.url, headers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	if n, err := first.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("a body past its end gave %d bytes, %v", n, err)
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
		t.Error("a closed body gave more")
	}
	equal(t, "connections", s.conns.Load(), 1)
	equal(t, "idle", s.idle(), 0)
}

// Connections that nobody needs do not stay.
func TestPlainSweep(t *testing.T) {
	s := raw(t, func(int) (string, bool) { return "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", false })
	p := s.pool.plain
	p.most = 2
	var held []*httpAnswer
	for range 3 {
		a, err := p.do(t.Context(), http.MethodGet, s.url, headers{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, a)
	}
	for _, a := range held {
		io.ReadAll(a.Body)
	}
	equal(t, "idle", s.idle(), 2)
	p.sweep()
	equal(t, "idle after the first sweep", s.idle(), 2)
	p.idle[0].since = time.Now().Add(-idleTimeout)
	p.sweep()
	equal(t, "idle when one is old", s.idle(), 1)
	s.pool.mu.Lock()
	equal(t, "open", len(s.pool.conns), 1)
	s.pool.mu.Unlock()
	s.pool.close()
	if _, err := p.do(t.Context(), http.MethodGet, s.url, headers{}, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// A header that would end its line is not sent, and neither is the rest.
func TestPlainHeaders(t *testing.T) {
	s := raw(t, func(int) (string, bool) { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false })
	for _, h := range []http.Header{{"X": {"a\r\nY: b"}}, {"X": {"a\nb"}}, {"X": {"a\x00"}}, {"X Y": {"a"}}, {"X:": {"a"}}, {"": {"a"}}} {
		shared, own := newHeaders(h), headers{}
		for name, values := range h {
			own.own = []headerField{{name, values[0]}}
		}
		for _, h := range []headers{shared, own} {
			if _, err := s.pool.plain.do(t.Context(), http.MethodGet, s.url, h, nil); err == nil {
				t.Errorf("%q was sent", h.all())
			}
		}
	}
	equal(t, "requests", s.posts.Load(), 0)
}

// What plain does not do, net/http does.
func TestPlainTakes(t *testing.T) {
	large := &payload{buf: make([]byte, maxPlainBody+1)}
	for _, tc := range []struct {
		of, to string
		body   *payload
		want   bool
	}{
		{"http://127.0.0.1:80/mcp", "http://127.0.0.1:80/other", nil, true},
		{"http://[::1]:80/mcp", "http://[::1]:80/mcp", nil, true},
		{"http://127.0.0.1/mcp", "http://127.0.0.1/mcp", large, false},
		{"http://127.0.0.1/mcp", "http://127.0.0.2/mcp", nil, false},
		{"https://127.0.0.1/mcp", "https://127.0.0.1/mcp", nil, false},
		{"http://127.0.0.1/mcp", "https://127.0.0.1/mcp", nil, false},
		{"http://[fe80::1%25lo]/mcp", "http://[fe80::1%25lo]/mcp", nil, false},
		{"http://b\u00fccher.example/mcp", "http://b\u00fccher.example/mcp", nil, false},
	} {
		of, _ := url.Parse(tc.of)
		to, _ := url.Parse(tc.to)
		equal(t, tc.to, newPlain(of, 1, nil).takes(to, tc.body), tc.want && canPlain)
	}
}

// maxPlainAllocs bounds what one request costs over a connection that is there.
const maxPlainAllocs = 6

func TestPlainAllocations(t *testing.T) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Sat, 21 Nov 2026 19:00:00 GMT\r\nContent-Length: 2\r\n\r\n{}")
	s := rawConns(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			if _, err := c.Read(buf); err != nil { // a request comes in one piece
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
	var scope call.Scope
	scope.Begin(t.Context())
	defer scope.Cancel(nil)
	h := newHeaders(http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}})
	p := newPayload()
	defer p.release()
	p.buf = append(p.buf, "{}"...)
	buf := make([]byte, 2)
	allocs := testing.AllocsPerRun(300, func() {
		a, err := s.pool.plain.do(&scope, http.MethodPost, s.url, h, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(a.Body, buf); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f allocations a request", allocs)
	if allocs > maxPlainAllocs {
		t.Errorf("%.0f allocations a request, want at most %d", allocs, maxPlainAllocs)
	}
}

// Whatever plain reads, net/http reads in the same way.
func FuzzPlainHead(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.0 404 \nX: a\n b\nx:c\n\nbody", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", "HTTP/1.1 100 \r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReaderSize(strings.NewReader(string(data)), 16)
		h, _, err := readHead(in, nil)
		if err != nil || h.status < 200 {
			return
		}
		theirs, terr := http.ReadResponse(bufio.NewReader(strings.NewReader(string(data))), nil)
		if terr != nil {
			t.Fatalf("net/http does not read it: %v", terr)
		}
		b := &plainBody{c: &plainConn{in: in, pooledConn: &pooledConn{p: &pool{}, Conn: silent{}}}, stop: func() bool { return false }}
		b.begin(&h)
		ours, err := io.ReadAll(b)
		want, werr := io.ReadAll(theirs.Body)
		if err != nil {
			return
		}
		if h.status != theirs.StatusCode || string(ours) != string(want) || werr != nil {
			t.Errorf("status %d, %q, %v; net/http: status %d, %q, %v", h.status, ours, err, theirs.StatusCode, want, werr)
		}
		for name, values := range theirs.Header {
			for i, v := range values {
				values[i] = strings.TrimRight(v, " ") // net/http leaves that of an empty line that goes on
			}
			if fmt.Sprint(h.header[name]) != fmt.Sprint(values) {
				t.Errorf("%s: %q; net/http: %q", name, h.header[name], values)
			}
		}
		if theirs.Close && !h.last {
			t.Error("net/http ends the connection")
		}
	})
}

// Whatever stands in headers and URLs, what goes out is one request, and that one.
func FuzzPlainRequest(f *testing.F) {
	f.Add("X-A", "b", "/mcp?a=b", "{}")
	f.Add("X-A", "b\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1", "/mcp", "{}")
	f.Add("X-A: b\r\nX-B", "c", "/mcp HTTP/1.1\r\nX: y", "{}")
	f.Add("Content-Length ", "7", "/a b", "{}")
	f.Add("X-A", "b", "/mcp?a b", "{}")
	f.Fuzz(func(t *testing.T, name, value, target, body string) {
		u, err := url.Parse("http://127.0.0.1:1/")
		if err != nil {
			t.Fatal(err)
		}
		if u, err = u.Parse(target); err != nil || u.Host != "127.0.0.1:1" {
			return
		}
		u = bare(u)
		c := &plainConn{}
		header := newHeaders(http.Header{"X-Base": {"base"}})
		header.own = []headerField{{name, value}}
		p := &payload{buf: []byte(body)}
		if c.compose(http.MethodPost, u, header, p) != nil {
			return
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Host", "Trailer": // which nobody can configure, see reserved
			return
		}
		in := bufio.NewReader(bytes.NewReader(c.out))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%q is no request: %v", c.out, err)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != body || r.Method != http.MethodPost || r.Host != "127.0.0.1:1" || r.RequestURI != u.RequestURI() {
			t.Errorf("%q is read as %s %s to %s with %q, %v", c.out, r.Method, r.RequestURI, r.Host, got, err)
		}
		want := strings.Trim(value, " \t")
		if key := http.CanonicalHeaderKey(name); key != "X-Base" && r.Header.Get(name) != want || len(r.Header) > 3 {
			t.Errorf("%q is read with the headers %q", c.out, r.Header)
		}
		if _, err := in.Peek(1); err != io.EOF {
			t.Errorf("%q holds more than one request", c.out)
		}
	})
}

// A server that lets its answer drip does not gain time: the call ends when its
// timeout does, whatever is still to come.
func TestDrippingAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"head":   "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 100),
		"1xx":    strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 50),
		"body":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n" + strings.Repeat(" ", 500),
		"chunks": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n \r\n", 100),
		"stream": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + strings.Repeat(": alive\n\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{on: map[string]on{
					wire.MethodToolsList: lists[wire.MethodToolsList],
					wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
						c, _, err := w.(http.Hijacker).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						defer c.Close()
						for i := range answer {
							if _, err := io.WriteString(c, answer[i:i+1]); err != nil {
								return
							}
							time.Sleep(time.Second)
						}
					},
				}}
				r := start(t, Options{HTTP: serveInMemory(t, s), Timeout: time.Minute, Era: wire.EraLegacy})
				r.watch.wait(t, isReady)
				began := time.Now()
				got := outcomeOf(r.Do(t.Context(), toolCall("echo", "ann", &peer{})))
				if !strings.Contains(got, "did not answer within 1m0s") || time.Since(began) != time.Minute {
					t.Errorf("after %s: %s", time.Since(began), got)
				}
				time.Sleep(2 * time.Second) // the server finds out
			})
		})
	}
}

// silent is a connection that is only closed.
type silent struct{ net.Conn }

func (silent) Close() error { return nil }

// An event's id that no header can hold is not one to take a stream up at.
func TestResumableIDs(t *testing.T) {
	for id, want := range map[string]string{"e-1": "e-1", "é": "é", "a\x01b": "", strings.Repeat("x", maxEventID): strings.Repeat("x", maxEventID), strings.Repeat("x", maxEventID+1): ""} {
		equal(t, fmt.Sprintf("%.20q", id), resumable(id), want)
	}
}
