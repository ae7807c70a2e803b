package upstream

import (
	"context"

	"mcpgateway/internal/upstream/process"
)

// stdioOpener opens links to a server that is started as a child process.
func stdioOpener(o *Options) opener {
	return func(ctx context.Context) (*link, error) {
		p, err := process.Start(ctx, *o.Stdio, process.Log{To: o.Logger, Mask: o.Mask})
		if err != nil {
			return nil, &CallError{Reason: "cannot start the server's program", Cause: err}
		}
		return &link{in: p.Stdin, out: p.Stdout, stop: p.Stop}, nil
	}
}
