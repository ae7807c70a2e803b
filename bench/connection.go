package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	eraLegacy = "legacy"
	eraModern = "modern"

	// firstID has as many digits as every later id of a run: call writes the new
	// id over the previous one.
	firstID     = 1_000_000_000
	nonceLength = 20 // digits

	ioTimeout = 10 * time.Second // of one exchange outside the measured loop
)

// revision returns the protocol revision that clients of an era use.
func revision(era string) string {
	if era == eraModern {
		return modernRevision
	}
	return legacyRevision
}

// target is what clients call.
type target struct {
	URL   string
	Era   string   // of the clients
	Tools []string // public names of the tool; client n calls the n-th
	// Keys are API keys of equal length. A legacy client uses one; a modern client
	// uses the next one for each call. Without keys no credentials are sent.
	Keys []string
	TLS  *tls.Config
	// HTTP2 makes clients speak HTTP/2, for which they need TLS.
	HTTP2 bool
	callArguments
}

// tool returns the tool that a client calls.
func (t *target) tool(number int) string { return t.Tools[number%len(t.Tools)] }

// connection is a keep-alive connection of an MCP client. Only one goroutine may
// use it.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
	http2  *http2 // in place of conn and reader
	body   bytes.Buffer
	head   string // request line and headers of a POST up to the length's value

	stopWatchingAbort func() bool
}

// connect opens a connection. Its exchanges fail once ctx ends. The caller must
// call close.
func connect(ctx context.Context, t *target, number, bufferSize int) (*connection, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	c := &connection{}
	if t.HTTP2 {
		c.http2 = newHTTP2(ctx, t.URL, t.TLS)
	} else if err := c.dial(ctx, u, t.TLS, bufferSize); err != nil {
		return nil, err
	}
	c.head = "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if len(t.Keys) > 0 {
		c.head += "Authorization: Bearer " + t.Keys[number%len(t.Keys)] + "\r\n"
	}
	return c, nil
}

// dial opens a connection of HTTP/1.1.
func (c *connection) dial(ctx context.Context, u *url.URL, secure *tls.Config, bufferSize int) error {
	dialer := net.Dialer{Timeout: ioTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	if secure != nil {
		config := secure.Clone()
		config.ServerName = u.Hostname()
		conn = tls.Client(conn, config)
	}
	c.conn, c.reader = conn, bufio.NewReaderSize(conn, bufferSize)
	c.stopWatchingAbort = context.AfterFunc(ctx, func() { conn.Close() })
	return nil
}

// openSession performs the handshake of the legacy era and adds the session's
// headers to c.head.
func (c *connection) openSession() error {
	_, header, err := c.exchange(c.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacyRevision+
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`), http.StatusOK)
	if err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	c.head += "MCP-Protocol-Version: " + legacyRevision + "\r\n"
	if session := header.Get(sessionHeader); session != "" {
		c.head += sessionHeader + ": " + session + "\r\n"
	}
	if _, _, err = c.exchange(c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), http.StatusAccepted); err != nil {
		return fmt.Errorf("opening a session: %w", err)
	}
	return nil
}

// post returns a complete HTTP request with this body.
func (c *connection) post(body string) []byte {
	return []byte(c.head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// exchange sends a request and reads the answer. The body it returns is valid
// until the next exchange. The body of an event stream is its last event.
func (c *connection) exchange(request []byte, wantStatus int) (body []byte, header http.Header, err error) {
	if c.http2 == nil {
		if _, err := c.conn.Write(request); err != nil {
			return nil, nil, err
		}
		return c.receive(wantStatus)
	}
	resp, err := c.http2.exchange(request)
	if err != nil {
		return nil, nil, err
	}
	return c.read(resp, wantStatus)
}

// receive reads an answer of HTTP/1.1.
func (c *connection) receive(wantStatus int) (body []byte, header http.Header, err error) {
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, nil, err
	}
	return c.read(resp, wantStatus)
}

// read reads the body of an answer and checks its status.
func (c *connection) read(resp *http.Response, wantStatus int) (body []byte, header http.Header, err error) {
	defer resp.Body.Close()
	c.body.Reset()
	if _, err := c.body.ReadFrom(resp.Body); err != nil {
		return nil, nil, err
	}
	body = c.body.Bytes()
	if resp.StatusCode != wantStatus {
		return nil, nil, fmt.Errorf("HTTP status %d, want %d: %.200s", resp.StatusCode, wantStatus, body)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body = lastData(body)
	}
	return body, resp.Header, nil
}

// lastData returns the data of the last event of an event stream that has data.
// The response is always the last event of the stream of its request.
func lastData(stream []byte) []byte {
	var last []byte
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			last = bytes.TrimSpace(data)
		}
	}
	return last
}

// endSession ends the session, if there is one. Otherwise the measured process
// would keep it.
func (c *connection) endSession() error {
	if !strings.Contains(c.head, sessionHeader) {
		return nil
	}
	request := []byte("DELETE" + strings.TrimPrefix(c.head, "POST") + "Content-Length: 0\r\n\r\n")
	if c.http2 != nil {
		resp, err := c.http2.exchange(request)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	c.conn.SetDeadline(time.Now().Add(ioTimeout))
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// close ends the session, if there is one, and the connection.
func (c *connection) close() {
	c.endSession() // an error means that the connection is gone
	c.abandon()
}

// abandon closes the connection and leaves the session open.
func (c *connection) abandon() {
	if c.http2 != nil {
		c.http2.transport.CloseIdleConnections()
		return
	}
	c.stopWatchingAbort()
	c.conn.Close()
}
