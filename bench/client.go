package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// client is one MCP client: a keep-alive connection, in the legacy era with a
// session. Each call sends the same bytes except for the id and the nonce, so
// that the load generator costs little. Only one goroutine may use a client.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
	body   bytes.Buffer
	head   string // request line and headers of a POST up to the length's value

	request           []byte // a complete call
	idAt, nonceAt     int    // their offsets in request
	number            int    // number of this client, part of its nonces
	calls             int
	wantID, wantText  []byte // parts of a compact answer
	stopWatchingAbort func() bool
}

// openClient connects to endpoint and, in the legacy era, opens a session. The
// client fails once ctx ends. The caller must call close.
func openClient(ctx context.Context, endpoint, era, tool string, number int) (*client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: ioTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, reader: bufio.NewReaderSize(conn, 8192), number: number}
	c.stopWatchingAbort = context.AfterFunc(ctx, func() { conn.Close() })
	c.head = "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

	meta := ""
	if era == eraModern {
		c.head += "MCP-Protocol-Version: " + modernRevision + "\r\nMcp-Method: tools/call\r\nMcp-Name: " + tool + "\r\n"
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernRevision +
			`","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`
	} else if err := c.openSession(); err != nil {
		c.close()
		return nil, fmt.Errorf("opening a session: %w", err)
	}

	nonce := strings.Repeat("0", nonceLength)
	c.request = c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"nonce":%q}%s}}`, firstID, tool, nonce, meta))
	c.idAt = bytes.Index(c.request, strconv.AppendInt(nil, firstID, 10))
	c.nonceAt = bytes.Index(c.request, []byte(nonce))
	c.wantID = fmt.Appendf(nil, `"id":%d`, firstID)
	c.wantText = fmt.Appendf(nil, `"text":%q`, answerText(nonce))
	return c, nil
}

// openSession performs the handshake of the legacy era and adds the session's
// headers to c.head.
func (c *client) openSession() error {
	c.conn.SetDeadline(time.Now().Add(ioTimeout))
	_, header, err := c.exchange(c.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacyRevision+
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`), http.StatusOK)
	if err != nil {
		return err
	}
	c.head += "MCP-Protocol-Version: " + legacyRevision + "\r\n"
	if session := header.Get(sessionHeader); session != "" {
		c.head += sessionHeader + ": " + session + "\r\n"
	}
	_, _, err = c.exchange(c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), http.StatusAccepted)
	return err
}

// post returns a complete HTTP request with this body.
func (c *client) post(body string) []byte {
	return []byte(c.head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// exchange sends a request and reads the answer. The body it returns is valid
// until the next exchange.
func (c *client) exchange(request []byte, wantStatus int) (body []byte, header http.Header, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, nil, err
	}
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

// call makes one tool call with a new id and nonce and checks the answer.
func (c *client) call() error {
	id := firstID + c.calls
	c.calls++
	copy(c.request[c.idAt:], strconv.AppendInt(nil, int64(id), 10))
	nonce := fmt.Appendf(c.request[c.nonceAt:c.nonceAt], "%06d%0*d", c.number, nonceLength-6, c.calls)
	copy(c.wantID[len(`"id":`):], c.request[c.idAt:c.idAt+10])
	copy(c.wantText[len(`"text":"`):], nonce)

	body, _, err := c.exchange(c.request, http.StatusOK)
	if err != nil {
		return err
	}
	if bytes.Contains(body, c.wantID) && bytes.Contains(body, c.wantText) && !bytes.Contains(body, []byte(`"isError":true`)) {
		return nil
	}
	return checkAnswer(body, id, string(nonce)) // the encoding may differ
}

// checkAnswer decodes an answer and returns an error if it is wrong.
func checkAnswer(body []byte, id int, nonce string) error {
	var answer struct {
		ID     int `json:"id"`
		Result struct {
			Content []struct{ Type, Text string } `json:"content"`
			IsError bool                          `json:"isError"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("wrong answer %.200q: %w", body, err)
	}
	content := answer.Result.Content
	switch {
	case answer.Error != nil:
		return fmt.Errorf("wrong answer: error %s", answer.Error)
	case answer.ID != id:
		return fmt.Errorf("wrong answer: id %d, want %d", answer.ID, id)
	case answer.Result.IsError, len(content) != 1, content[0].Type != "text", content[0].Text != answerText(nonce):
		return fmt.Errorf("wrong answer: not the text for nonce %s: %.200s", nonce, body)
	}
	return nil
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

// close ends the session, if there is one, and the connection.
func (c *client) close() {
	if strings.Contains(c.head, sessionHeader) {
		// Otherwise the measured process would keep the session.
		c.conn.SetDeadline(time.Now().Add(time.Second))
		request := "DELETE" + strings.TrimPrefix(c.head, "POST") + "Content-Length: 0\r\n\r\n"
		if _, err := io.WriteString(c.conn, request); err == nil {
			http.ReadResponse(c.reader, nil)
		}
	}
	c.stopWatchingAbort()
	c.conn.Close()
}
