package upstream

import (
	"context"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
)

// stdioOpener opens links to a server that is started as a child process.
func stdioOpener(c *protocol.Config, program process.Config) opener {
	return func(ctx context.Context) (*link, error) {
		p, err := process.Start(ctx, program, process.Log{To: c.Logger, Mask: c.Mask})
		if err != nil {
			return nil, &protocol.CallError{Reason: "cannot start the server's program", Cause: err}
		}
		return &link{in: p.Stdin, out: p.Stdout, stop: p.Stop}, nil
	}
}
