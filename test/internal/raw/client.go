package raw

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// The revisions that the client supports, one of each era.
const (
	Legacy = "2025-11-25"
	Modern = "2026-07-28"
)

// Client talks to one server over streamable HTTP.
type Client struct {
	url, revision string
	session       string
	extra         http.Header // of every request
	http          *http.Client
	last          atomic.Int64 // id
}

// Open opens a connection, in the legacy era a session.
func Open(ctx context.Context, url, revision string) (*Client, error) {
	return OpenWith(ctx, url, revision, nil)
}

// Join returns a client in a legacy session that another one has opened, or, with session "", one that has not opened any.
func Join(url, session string, extra http.Header) *Client {
	return &Client{url: url, revision: Legacy, session: session, extra: extra, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// OpenWith is Open for a client that sends these headers with every request.
func OpenWith(ctx context.Context, url, revision string, extra http.Header) (*Client, error) {
	c := &Client{url: url, revision: revision, extra: extra, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if c.revision == Modern {
		return c, nil
	}
	answer, err := c.Send(ctx, "initialize", `{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`)
	if err != nil {
		return nil, err
	}
	if f := answer.Response.Fault(); f != nil {
		return nil, f
	}
	c.session = answer.Header.Get("Mcp-Session-Id")
	_, err = c.Post(ctx, http.Header{}, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, err
}

// At returns a client that goes on with the same session at another URL.
func (c *Client) At(url string) *Client {
	return &Client{url: url, revision: c.revision, session: c.session, extra: c.extra, http: c.http}
}

// Session returns the id of the legacy session, "" if there is none.
func (c *Client) Session() string { return c.session }

// Revision returns the revision of the connection.
func (c *Client) Revision() string { return c.revision }

// Answer is the response to one request.
type Answer struct {
	Status   int
	Header   http.Header
	Before   []Message // messages before the response
	Response Message
	// LastEvent is the id of the last event of an event stream, "" if there was none.
	LastEvent string
}

// Meta returns the _meta members of a modern request, "" in the legacy era.
func (c *Client) Meta() string {
	if c.revision != Modern {
		return ""
	}
	return `"io.modelcontextprotocol/protocolVersion":"` + Modern + `","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}`
}

// Call sends a request with params, an object without _meta, to which it adds the era's _meta, and returns the response. A JSON-RPC error is a *Fault.
func (c *Client) Call(ctx context.Context, method, params string) (Message, error) {
	if c.revision == Modern {
		comma := ","
		if strings.TrimSpace(strings.Trim(params, "{} ")) == "" {
			comma = ""
		}
		params = strings.TrimSuffix(params, "}") + comma + `"_meta":{` + c.Meta() + `}}`
	}
	answer, err := c.Send(ctx, method, params)
	if err != nil {
		return Message{}, err
	}
	if f := answer.Response.Fault(); f != nil {
		return answer.Response, f
	}
	return answer.Response, nil
}

// Send sends a request with exactly these params and waits for its response.
func (c *Client) Send(ctx context.Context, method, params string) (Answer, error) {
	return c.SendBody(ctx, method, params, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.last.Add(1), method, params))
}

// SendBody is Send with the caller's own envelope.
func (c *Client) SendBody(ctx context.Context, method, params, body string) (Answer, error) {
	return c.Post(ctx, c.header(method, params), body)
}

// Post sends one message with additional headers and reads the whole response.
func (c *Client) Post(ctx context.Context, header http.Header, body string) (Answer, error) {
	response, err := c.do(ctx, http.MethodPost, header, body)
	if err != nil {
		return Answer{}, err
	}
	return read(response)
}

// read reads a response to its end, an event stream to the response in it. After an error the answer has what was read before.
func read(response *http.Response) (Answer, error) {
	defer response.Body.Close()
	answer := Answer{Status: response.StatusCode, Header: response.Header}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		events := newEvents(response.Body)
		for {
			m, err := events.next()
			answer.LastEvent = events.id
			if err != nil {
				return answer, fmt.Errorf("the stream ended before the response: %w", err)
			}
			if m.Method() == "" {
				answer.Response = m
				return answer, nil
			}
			answer.Before = append(answer.Before, m)
		}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || len(text) == 0 {
		return answer, err
	}
	answer.Response, err = Read(string(text))
	return answer, err
}

func (c *Client) do(ctx context.Context, verb string, header http.Header, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, verb, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	for name, values := range c.extra {
		header[name] = values
	}
	header.Set("Accept", "application/json, text/event-stream")
	header.Set("Content-Type", "application/json")
	if c.session != "" {
		header.Set("Mcp-Session-Id", c.session)
	}
	if c.session != "" || c.revision == Modern {
		header.Set("MCP-Protocol-Version", c.revision)
	}
	return c.http.Do(request)
}

// header returns the headers in which modern requests repeat members of their body.
func (c *Client) header(method, params string) http.Header {
	h := http.Header{}
	if c.revision != Modern {
		return h
	}
	h.Set("Mcp-Method", method)
	var named struct{ Name, URI string }
	if err := json.Unmarshal([]byte(params), &named); err != nil {
		return h // a test sends invalid params on purpose
	}
	switch method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", encoded(named.Name))
	case "resources/read":
		h.Set("Mcp-Name", encoded(named.URI))
	}
	return h
}

// encoded returns a value as a header carries it.
func encoded(value string) string {
	for i := range len(value) {
		if value[i] < 0x21 || value[i] > 0x7e {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
		}
	}
	return value
}
