package raw

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Stream is an event stream that belongs to no request: the GET stream of a legacy session, or a modern subscription.
type Stream struct {
	body   io.Closer
	events *events
}

// Subscribe opens the stream with notifications of changed lists. It stays open until ctx ends or Close is called.
func (c *Client) Subscribe(ctx context.Context) (*Stream, error) {
	verb, header, body := http.MethodGet, http.Header{}, ""
	if c.revision == Modern {
		verb, header = http.MethodPost, c.header("subscriptions/listen", "{}")
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":`+
			`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true},"_meta":{%s}}}`, c.last.Add(1), c.Meta())
	}
	return c.stream(ctx, verb, header, body)
}

// Listen opens the GET stream of a session, after the event with this id if it is not "".
func (c *Client) Listen(ctx context.Context, lastEvent string) (*Stream, error) {
	header := http.Header{}
	if lastEvent != "" {
		header.Set("Last-Event-Id", lastEvent)
	}
	return c.stream(ctx, http.MethodGet, header, "")
}

// Begin sends a request with this id, and returns the event stream of its answer.
func (c *Client) Begin(ctx context.Context, id int, method, params string) (*Stream, error) {
	return c.stream(ctx, http.MethodPost, c.header(method, params), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
}

func (c *Client) stream(ctx context.Context, verb string, header http.Header, body string) (*Stream, error) {
	response, err := c.do(ctx, verb, header, body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		response.Body.Close()
		return nil, fmt.Errorf("want an event stream, got %s", response.Status)
	}
	return &Stream{body: response.Body, events: newEvents(response.Body)}, nil
}

// Next returns the next message. The error is io.EOF after the server has ended the stream.
func (s *Stream) Next() (Message, error) { return s.events.next() }

// LastEvent returns the id of the last event, "" if there was none.
func (s *Stream) LastEvent() string { return s.events.id }

// Close ends the stream.
func (s *Stream) Close() error { return s.body.Close() }

// Resume asks for the rest of a stream after the event with this id, and reads it to its response, or to its end.
func (c *Client) Resume(ctx context.Context, lastEvent string) (Answer, error) {
	response, err := c.do(ctx, http.MethodGet, http.Header{"Last-Event-Id": {lastEvent}}, "")
	if err != nil {
		return Answer{LastEvent: lastEvent}, err
	}
	answer, err := read(response)
	if answer.LastEvent == "" {
		answer.LastEvent = lastEvent
	}
	return answer, err
}

// events reads server-sent events.
type events struct {
	lines *bufio.Reader
	id    string // of the last event that had one
}

func newEvents(r io.Reader) *events { return &events{lines: bufio.NewReader(r)} }

// next returns the message of the next event that has data.
func (e *events) next() (Message, error) {
	var data []string
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return Message{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
		}
		if value, ok := strings.CutPrefix(line, "id:"); ok {
			e.id = strings.TrimPrefix(value, " ")
		}
		if line == "" && strings.Join(data, "\n") != "" { // an event without data only carries an id for resumption
			return Read(strings.Join(data, "\n"))
		}
		if line == "" {
			data = nil
		}
	}
}
