package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// pipe serves one client over two streams until its input ends.
func (s *server) pipe(in io.Reader, out io.Writer) error {
	var writing sync.Mutex
	send := func(m object) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = out.Write(append(encode(m), '\n')) // an error means that the client is gone; its input ends too
	}
	c := &stdioConn{s: s, session: newSession(send), send: send, pending: map[string]context.CancelFunc{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.close()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				return err
			}
			c.handle(&m, &wg)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stdioConn is the connection of one client on a pair of streams.
type stdioConn struct {
	s       *server
	session *session
	send    func(object)

	mu      sync.Mutex
	pending map[string]context.CancelFunc // of requests and subscriptions, by id
}

func (c *stdioConn) handle(m *message, wg *sync.WaitGroup) {
	switch {
	case m.Method == "":
		c.session.answered(m)
	case m.Method == "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			c.cancel(string(p.RequestID))
		}
	case m.ID == nil:
	default:
		ctx, cancel := context.WithCancel(c.s.life)
		c.mu.Lock()
		c.pending[string(m.ID)] = cancel
		c.mu.Unlock()
		wg.Go(func() {
			defer c.cancel(string(m.ID))
			result, f := c.answer(ctx, m)
			if ctx.Err() == nil {
				c.send(response(m.ID, result, f))
			}
		})
	}
}

func (c *stdioConn) answer(ctx context.Context, m *message) (object, *fault) {
	p, f := readParams(m.Params)
	switch {
	case f != nil:
		return nil, f
	case !p.modern() && m.Method != "server/discover":
		if c.s.era == "modern" {
			return nil, unsupported()
		}
		return c.s.legacy(ctx, c.session, m, c.send)
	case c.s.era == "legacy":
		return nil, faultf(methodNotFound, "Method not found: %s", m.Method)
	case m.Method == "subscriptions/listen":
		end, f := c.s.listen(m, p, c.send)
		if f != nil {
			return nil, f
		}
		<-ctx.Done()
		end()
		return nil, nil
	default:
		return c.s.modern(ctx, m, p)
	}
}

// cancel cancels a running request.
func (c *stdioConn) cancel(id string) {
	c.mu.Lock()
	cancel := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (c *stdioConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.pending {
		cancel()
	}
}

// unsupported returns the error for a client of the other era.
func unsupported() *fault {
	f := faultf(unsupportedRev, "Unsupported protocol version")
	f.Data = object{"supported": []string{modernRevision}, "requested": legacyRevision}
	return f
}
