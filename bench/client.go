package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// client is one MCP client: a connection, in the legacy era with a session. Each
// call sends the same bytes except for the id, the nonce and the key, so that the
// load generator costs little. Only one goroutine may use a client.
type client struct {
	*connection
	target *target

	request              []byte // a complete call
	idAt, nonceAt, keyAt int    // their offsets in request; keyAt is 0 if the key stays
	number               int    // number of this client, part of its nonces
	calls                int
	wantID, wantText     []byte // parts of a compact answer
}

// openClient connects to a target and, in the legacy era, opens a session. The
// client fails once ctx ends. The caller must call close.
func openClient(ctx context.Context, t *target, number int) (*client, error) {
	conn, err := connect(ctx, t, number, 8192)
	if err != nil {
		return nil, err
	}
	c := &client{connection: conn, target: t, number: number}
	if t.Era == eraLegacy {
		if err := c.openSession(); err != nil {
			c.close()
			return nil, err
		}
	}
	if c.request, err = c.newCall(); err != nil {
		c.close()
		return nil, err
	}
	nonce := strings.Repeat("0", nonceLength)
	c.idAt = after(c.request, `"id":`)
	c.nonceAt = after(c.request, `"nonce":"`)
	c.wantID = fmt.Appendf(nil, `"id":%d`, firstID)
	c.wantText = fmt.Appendf(nil, `%s%s"`, textBegin, answerText(nonce, t.Size))
	if t.Era == eraModern && len(t.Keys) > 1 {
		c.keyAt = after(c.request, "Bearer ")
	}
	return c, nil
}

// textBegin begins the text of a compact answer.
const textBegin = `"text":"`

// after returns the offset behind the first occurrence of part in s.
func after(s []byte, part string) int { return bytes.Index(s, []byte(part)) + len(part) }

// newCall returns a call with the first id and a nonce of zeros.
func (c *client) newCall() ([]byte, error) {
	meta, tool := "", c.target.tool(c.number)
	if c.target.Era == eraModern {
		c.head += modernHeaders("tools/call", tool)
		meta = modernMeta
	}
	args := c.target.callArguments
	args.Nonce = strings.Repeat("0", nonceLength)
	arguments, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, firstID, tool, arguments, meta)), nil
}

// modernMeta is the member of the parameters that modern requests need, after a
// comma.
const modernMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernRevision +
	`","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

// modernHeaders returns the headers that modern requests need. name is empty for
// methods without one.
func modernHeaders(method, name string) string {
	headers := "MCP-Protocol-Version: " + modernRevision + "\r\nMcp-Method: " + method + "\r\n"
	if name != "" {
		headers += "Mcp-Name: " + name + "\r\n"
	}
	return headers
}

// call makes one tool call with a new id and nonce and checks the answer.
func (c *client) call() error {
	id, nonce := c.next()
	body, _, err := c.exchange(c.request, http.StatusOK)
	if err != nil {
		return err
	}
	return c.check(body, id, nonce)
}

// next writes the id, the nonce and the key of the next call into c.request.
func (c *client) next() (id int, nonce []byte) {
	id = firstID + c.calls
	c.calls++
	copy(c.request[c.idAt:], strconv.AppendInt(nil, int64(id), 10))
	nonce = fmt.Appendf(c.request[c.nonceAt:c.nonceAt], "%06d%0*d", c.number, nonceLength-6, c.calls)
	copy(c.wantID[len(`"id":`):], c.request[c.idAt:c.idAt+10])
	copy(c.wantText[len(textBegin):], nonce)
	if c.keyAt > 0 {
		keys := c.target.Keys
		copy(c.request[c.keyAt:], keys[(c.number+c.calls*7919)%len(keys)])
	}
	return id, nonce
}

// check returns an error if an answer is wrong.
func (c *client) check(body []byte, id int, nonce []byte) error {
	at := max(0, bytes.Index(body, c.wantText[:len(textBegin)])) // a short text is found fast
	if bytes.Contains(body, c.wantID) && bytes.HasPrefix(body[at:], c.wantText) && !bytes.Contains(body, []byte(`"isError":true`)) {
		return nil
	}
	return checkAnswer(body, id, string(nonce), c.target.Size) // the encoding may differ
}

// checkAnswer decodes an answer and returns an error if it is wrong.
func checkAnswer(body []byte, id int, nonce string, size int) error {
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
	case answer.Result.IsError, len(content) != 1, content[0].Type != "text", content[0].Text != answerText(nonce, size):
		return fmt.Errorf("wrong answer: not the text for nonce %s: %.200s", nonce, body)
	}
	return nil
}
