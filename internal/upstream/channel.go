package upstream

import "mcpgateway/internal/upstream/protocol"

// checkConnection has the conversation check its connection.
func (c *Connector) checkConnection() {
	if conn := c.current(); conn != nil {
		conn.Probe(protocol.ConnectionFailed)
	}
}

// notify sends a notification without params in the present conversation, if there
// is one.
func (c *Connector) notify(method string) {
	if conn := c.current(); conn != nil {
		conn.Notify(method)
	}
}

// sessions says what one more session with the server is, as the last conversation
// showed.
func (c *Connector) sessions() protocol.SessionKind {
	return protocol.SessionKind(c.sessionKind.Load())
}
