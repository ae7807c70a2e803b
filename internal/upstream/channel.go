package upstream

import "mcpgateway/internal/upstream/protocol"

// suspect has the conversation check whether the server is still there.
func (c *Connector) suspect() {
	if conn := c.current(); conn != nil {
		conn.Probe(protocol.ConnectionFailed)
	}
}

// tell sends a notification without params in the present conversation, if there
// is one.
func (c *Connector) tell(method string) {
	if conn := c.current(); conn != nil {
		conn.Notify(method)
	}
}

// sessions says what one more session with the server is, as the last conversation
// showed.
func (c *Connector) sessions() protocol.SessionKind {
	return protocol.SessionKind(c.sessionKind.Load())
}
