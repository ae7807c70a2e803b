package upstream

import "mcpgateway/internal/upstream/protocol"

// doubt has the conversation look whether the server still does anything, after a
// call has timed out. It does not block. Where the session is somebody's own, that
// with which the gateway gathers the catalog looks too: it is the one that says
// whether the upstream is up.
func (c *Connector) doubt() {
	if conn := c.current(); conn != nil {
		conn.Probe(protocol.CallTimedOut)
	}
	if p := c.o.persona; p != nil && p.head != nil {
		p.head.doubt()
	}
}
