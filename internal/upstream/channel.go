package upstream

import "mcpgateway/internal/wire"

// channel is the way to a server. What a session of somebody's own is, and
// whether there is such a thing, depends on it.
type channel uint8

const (
	channelUnknown  channel = iota // there was no conversation yet
	channelLine                    // each session is a process
	channelSSE                     // each session is a stream
	channelSessions                // streamable HTTP of the legacy era: sessions are cheap
	channelModern                  // no sessions
	channelDual                    // sessions for clients of the legacy era only
)

func channelOf(c conn) channel {
	switch c.(type) {
	case *sseConn:
		return channelSSE
	case *legacyHTTP:
		return channelSessions
	case *modernHTTP:
		return channelModern
	case *dualHTTP:
		return channelDual
	default:
		return channelLine
	}
}

// suspect has the conversation look whether the server is still there.
func (c *Connector) suspect() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	switch h := conn.(type) {
	case *legacyHTTP:
		poke(h.e.trouble)
	case *dualHTTP:
		poke(h.modern.e.trouble)
		if l, _ := h.settled(); l != nil {
			poke(l.e.trouble)
		}
	}
}

// teller is a conn that takes notifications for the server.
type teller interface {
	// tell does not wait for the server. What cannot be sent is lost.
	tell(method string)
}

func (l *lineConn) tell(method string) { l.writer.post(&wire.Message{Method: method}) }

func (l *legacyHTTP) tell(method string) {
	header := l.session.Load().header
	l.notify(l.e, header, method)
}

func (s *sseConn) tell(method string) { s.notify(s.post, *s.head.Load(), method) }

// tell sends a notification without params in the present conversation, if there
// is one that takes it.
func (c *Connector) tell(method string) {
	c.mu.Lock()
	t, ok := c.conn.(teller)
	c.mu.Unlock()
	if ok {
		t.tell(method)
	}
}
