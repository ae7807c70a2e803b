package stdio

import (
	"context"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/line"
)

// New returns a dialer that starts the program for each conversation.
func New(c *protocol.Config, program process.Config) protocol.Dialer {
	return line.NewDialer(c, Open(c, program))
}

// Open returns an opener that starts the program.
func Open(c *protocol.Config, program process.Config) line.Opener {
	log := process.Log{
		To: c.Logger, Mask: c.Mask, First: new(process.FirstLines), LeftOut: c.Throttle.LeftOut,
		Wrote: func(w process.Words) { c.Owner.Wrote(w.Text, w.Error) },
	}
	return func(ctx context.Context) (*line.Link, error) {
		p, err := process.Start(ctx, program, log)
		if err != nil {
			return nil, &protocol.CallError{Reason: "cannot start the server's program", Cause: err}
		}
		return &line.Link{In: p.Stdin, Out: p.Stdout, Stop: p.Stop, Ended: p.Ended}, nil
	}
}
