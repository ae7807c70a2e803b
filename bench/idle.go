package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// idleStream is a client with an open event stream.
type idleStream struct {
	*connection
	stream *bufio.Reader // the body of the stream
}

// openStream opens a session and its stream of the legacy era, or a
// subscriptions/listen of the modern era. With uri it subscribes to a resource.
// The stream keeps its small buffers, because thousands are open.
func openStream(ctx context.Context, t *target, number int, uri string) (*idleStream, error) {
	conn, err := connect(ctx, t, number, 1024)
	if err != nil {
		return nil, err
	}
	c := &idleStream{connection: conn}
	switch t.Era {
	case eraModern:
		err = c.listen(uri)
	case eraLegacy:
		err = c.openLegacyStream(uri)
	default: // a server that speaks no MCP
		err = c.open("GET" + strings.TrimPrefix(c.head, "POST") + "\r\n")
	}
	if err != nil {
		c.abandon()
		return nil, err
	}
	return c, nil
}

func (c *idleStream) openLegacyStream(uri string) error {
	if err := c.openSession(); err != nil {
		return err
	}
	if uri != "" {
		answer, _, err := c.exchange(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":%q}}`, uri)), http.StatusOK)
		if err != nil || !strings.Contains(string(answer), `"result"`) {
			return fmt.Errorf("subscribing: %s %w", answer, err)
		}
	}
	return c.open("GET" + strings.TrimPrefix(c.head, "POST") + "\r\n")
}

// listen opens a stream of the modern era and waits for its acknowledgement.
func (c *idleStream) listen(uri string) error {
	c.head += modernHeaders("subscriptions/listen", "")
	notifications := `{"toolsListChanged":true}`
	if uri != "" {
		notifications = fmt.Sprintf(`{"resourceSubscriptions":[%q]}`, uri)
	}
	request := c.post(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":` + notifications + modernMeta + `}}`)
	if err := c.open(string(request)); err != nil {
		return err
	}
	return c.await("notifications/subscriptions/acknowledged")
}

// open sends a request whose answer is an event stream.
func (c *idleStream) open(request string) error {
	if _, err := c.conn.Write([]byte(request)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, &http.Request{Method: request[:strings.IndexByte(request, ' ')]})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return fmt.Errorf("HTTP status %d with %q, want a stream", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	c.stream = bufio.NewReaderSize(resp.Body, 256)
	return nil
}

// await reads the stream until a line contains text.
func (c *idleStream) await(text string) error {
	for {
		line, err := c.stream.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the stream ended before %q: %w", text, err)
		}
		if strings.Contains(line, text) {
			return nil
		}
	}
}

// streams are the open streams of a workload.
type streams []*idleStream

// openStreams opens n streams. The stage closes them.
func (s *stage) openStreams(ctx context.Context, t *target, n int, uri string) (streams, error) {
	all := make(streams, n)
	err := inParallel(n, openAtOnce, func(i int) (err error) {
		all[i], err = openStream(ctx, t, i, uri)
		return err
	})
	all = slices.DeleteFunc(all, func(c *idleStream) bool { return c == nil })
	s.owned(closeFunc(func() error {
		for _, c := range all {
			c.abandon()
		}
		return nil
	}))
	return all, err
}

// roomFor gives the gateway room for n sessions and streams of one address, which
// may have half of all.
func roomFor(n int) map[string]any { return map[string]any{"max_sessions": 4*n + 1000} }

// idleWorkload holds open streams while calls are made. Each turn starts the
// gateways again.
func idleWorkload(n int) workload {
	const without, with = "without streams", "with streams"
	beside := func(name string, streams int) path {
		p := path{Name: name, Via: viaGateway, Start: func(_ context.Context, s *stage) (measure, error) {
			return func(ctx context.Context) (sample, error) { return callsBeside(ctx, s, streams, n) }, nil
		}}
		if streams > 0 {
			p.Metrics = []metric{each, perSecond, p99}
		}
		return p
	}
	return workload{
		Name:  "idle",
		About: fmt.Sprintf("%d legacy sessions have an open stream on which nothing happens. Meanwhile 16 clients make calls with 1 KiB of text. The memory of a stream is the growth of the gateway's resident memory while the streams open. Each turn starts the gateways again.", n),
		Paths: []path{beside(without, 0), beside(with, n)},
		Ratios: []ratio{
			{Metric: each, Of: with, AtMost: 32, Requirement: 4},
			{Metric: p99, Of: with, To: without, AtMost: 1.2, Requirement: 4},
			{Metric: perSecond, Of: with, To: without},
		},
	}
}

// callsBeside measures calls at a gateway with a number of idle streams, and by how
// much its resident memory grew with each of them. room is the number of streams
// for which the gateway has room.
func callsBeside(ctx context.Context, s *stage, streams, room int) (figures sample, err error) {
	turn := s.forTurn()
	defer func() { err = errors.Join(err, turn.Close()) }()
	var grown int64
	measured := calls{Via: viaGateway, Size: 1 << 10,
		Change: func(_ context.Context, _ *stage, config *gatewayConfig, _ *target) error {
			config.Limits = roomFor(room)
			return nil
		},
		Background: func(ctx context.Context, s *stage, g *gateway, t *target) error {
			// Calls first, so that what is allocated once does not count.
			warm := load{Clients: 16, Duration: 200 * time.Millisecond}
			if _, err := warm.run(ctx, g.PID, t.opener()); err != nil {
				return err
			}
			before := residentBytes(g.PID)
			if _, err := s.openStreams(ctx, t, streams, ""); err != nil {
				return err
			}
			grown = residentBytes(g.PID) - before
			return nil
		},
	}.path("")
	measure, err := measured.Start(ctx, turn)
	if err != nil {
		return nil, err
	}
	if figures, err = measure(ctx); err == nil && streams > 0 {
		figures[each] = float64(grown) / float64(streams) / (1 << 10)
	}
	return figures, err
}
