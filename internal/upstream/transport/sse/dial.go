package sse

import (
	"context"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
)

// dialer opens conversations over HTTP+SSE.
type dialer struct {
	config     *protocol.Config
	http       *httpconn.Config
	concurrent int
}

// New returns a dialer for a server that speaks HTTP+SSE. concurrent is the number of
// calls at the same time.
func New(c *protocol.Config, http *httpconn.Config, concurrent int) protocol.Dialer {
	return &dialer{config: c, http: http, concurrent: concurrent}
}

// Dial implements [protocol.Dialer].
func (d *dialer) Dial(ctx context.Context, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	p := httpconn.NewPool(d.http, d.concurrent)
	c, h, err := Open(ctx, httpconn.NewConn(d.config, d.http, p, in))
	if err != nil {
		p.Close()
	}
	return c, h, err
}
