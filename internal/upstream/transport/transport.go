package transport

import (
	"context"
	"fmt"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/transport/inproc"
	"mcpgateway/internal/upstream/transport/sse"
	"mcpgateway/internal/upstream/transport/stdio"
	"mcpgateway/internal/upstream/transport/streamable"
)

// Kind names a transport. The configuration of the gateway uses the same names.
type Kind string

// The transports.
const (
	Stdio      Kind = "stdio"
	InProcess  Kind = "in-process"
	Streamable Kind = "streamable-http"
	SSE        Kind = "sse"
	// Auto is streamable HTTP, or HTTP+SSE if the server refuses streamable HTTP.
	Auto Kind = "auto"
)

// dialers makes the dialer of each transport.
var dialers = map[Kind]func(*protocol.Config, Settings) protocol.Dialer{
	Stdio:     func(c *protocol.Config, s Settings) protocol.Dialer { return stdio.New(c, *s.Program) },
	InProcess: func(c *protocol.Config, s Settings) protocol.Dialer { return inproc.New(c, s.Start) },
	Streamable: func(c *protocol.Config, s Settings) protocol.Dialer {
		return streamable.New(c, s.HTTP, s.MaxConcurrent, s.Tools, nil)
	},
	SSE: func(c *protocol.Config, s Settings) protocol.Dialer { return sse.New(c, s.HTTP, s.MaxConcurrent) },
	Auto: func(c *protocol.Config, s Settings) protocol.Dialer {
		return streamable.New(c, s.HTTP, s.MaxConcurrent, s.Tools, sse.Open)
	},
}

// Settings say how to reach a server. A transport reads its own settings only.
type Settings struct {
	Program *process.Config  // for Stdio
	Start   inproc.StartFunc // for InProcess
	HTTP    *httpconn.Config // for the transports over HTTP

	MaxConcurrent int                  // calls at the same time
	Tools         httpconn.ToolHeaders // nil: no parameter of a tool goes into a header
}

// Kind returns the transport whose settings are present, Auto for those over HTTP. It
// returns false unless the settings of exactly one are.
func (s Settings) Kind() (Kind, bool) {
	var kind Kind
	n := 0
	for k, present := range map[Kind]bool{Stdio: s.Program != nil, InProcess: s.Start != nil, Auto: s.HTTP != nil} {
		if present {
			kind = k
			n++
		}
	}
	return kind, n == 1
}

// New returns the dialer of a transport. It fails if there is no such transport.
func New(kind Kind, c *protocol.Config, s Settings) (protocol.Dialer, error) {
	dialer := dialers[kind]
	if dialer == nil {
		return nil, fmt.Errorf("there is no transport %q to upstream servers", string(kind))
	}
	return dialer(c, s), nil
}

// EndSession ends a session that another process has left open at a server over streamable HTTP.
func EndSession(ctx context.Context, c *protocol.Config, to *httpconn.Config, s httpconn.OpenSession) error {
	return streamable.EndSession(ctx, c, to, s)
}
