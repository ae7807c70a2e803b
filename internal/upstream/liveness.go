package upstream

import "mcpgateway/internal/upstream/protocol"

// probe has the conversation check whether the server is alive, after a call has timed
// out. It does not block. The catalog session checks too, because it determines the
// state of the upstream.
func (c *Connector) probe() {
	if conn := c.current(); conn != nil {
		conn.Probe(protocol.CallTimedOut)
	}
	if p := c.o.scope; p != nil && p.catalogSession != nil {
		p.catalogSession.probe()
	}
}
