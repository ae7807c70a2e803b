package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzResponse checks that net/http reads every response that this package reads, in
// the same way.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.0 404 \nX: a\n b\nx:c\n\nbody", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", "HTTP/1.1 100 \r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReaderSize(strings.NewReader(string(data)), 16)
		h, _, err := readHead(in, nil, nil)
		if err != nil || h.status < 200 {
			return
		}
		theirs, terr := http.ReadResponse(bufio.NewReader(strings.NewReader(string(data))), nil)
		if terr != nil {
			t.Fatalf("net/http does not read it: %v", terr)
		}
		var ours http.Response
		h.fill(&ours)
		b := &body{c: &conn{in: in, Conn: discardConn{}}, stop: func() bool { return false }}
		b.begin(&h)
		got, err := io.ReadAll(b)
		want, werr := io.ReadAll(theirs.Body)
		if err != nil {
			return
		}
		if h.status != theirs.StatusCode || string(got) != string(want) || werr != nil {
			t.Errorf("status %d, %q, %v; net/http: status %d, %q, %v", h.status, got, err, theirs.StatusCode, want, werr)
		}
		if ours.Status != theirs.Status || ours.Proto != theirs.Proto || ours.ProtoMinor != theirs.ProtoMinor {
			t.Errorf("%s %q; net/http: %s %q", ours.Proto, ours.Status, theirs.Proto, theirs.Status)
		}
		for name, values := range theirs.Header {
			for i, v := range values {
				values[i] = strings.TrimRight(v, " ") // net/http keeps the space of an empty continuation line
			}
			if fmt.Sprint(ours.Header[name]) != fmt.Sprint(values) {
				t.Errorf("%s: %q; net/http: %q", name, ours.Header[name], values)
			}
		}
		if theirs.Close && !h.last {
			t.Error("net/http ends the connection")
		}
	})
}

// FuzzRequest checks that exactly one request is sent, with the given headers and
// URL, whatever they contain.
func FuzzRequest(f *testing.F) {
	f.Add("X-A", "b", "/mcp?a=b", "{}")
	f.Add("X-A", "b\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1", "/mcp", "{}")
	f.Add("X-A: b\r\nX-B", "c", "/mcp HTTP/1.1\r\nX: y", "{}")
	f.Add("Content-Length ", "7", "/a b", "{}")
	f.Add("X-A", "b", "/mcp?a%20b", "{}")
	f.Add("ConTent-Length", "0", "/mcp", "{}")
	f.Fuzz(func(t *testing.T, name, value, target, text string) {
		u, err := url.Parse("http://127.0.0.1:1/")
		if err != nil {
			t.Fatal(err)
		}
		if u, err = u.Parse(target); err != nil || u.Host != "127.0.0.1:1" || strings.Contains(u.RawQuery, " ") {
			return // net/http also sends spaces in a query
		}
		sent := &recordingConn{}
		c := &conn{Conn: sent}
		req := &http.Request{
			Method: http.MethodPost, URL: u, Header: http.Header{"X-Base": {"base"}}, ContentLength: int64(len(text)),
			Body: io.NopCloser(strings.NewReader(text)),
		}
		req.Header[name] = append(req.Header[name], value)
		if !newTransport().takes(req) || c.compose(req, nil) != nil {
			return
		}
		w := requestWriter{c: c}
		if err := w.send(req, req.Body); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(&sent.Buffer)
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%q is no request: %v", c.out, err)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != text || r.Method != http.MethodPost || r.Host != "127.0.0.1:1" || r.RequestURI != u.RequestURI() {
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

// discardConn is a connection that is only closed.
type discardConn struct{ net.Conn }

func (discardConn) Close() error { return nil }

// recordingConn records what is written.
type recordingConn struct {
	net.Conn
	bytes.Buffer
}

func (c *recordingConn) Write(p []byte) (int, error) { return c.Buffer.Write(p) }
func (c *recordingConn) Read(p []byte) (int, error)  { return c.Buffer.Read(p) }
