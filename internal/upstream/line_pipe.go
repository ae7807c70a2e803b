package upstream

import (
	"context"
	"fmt"
	"time"

	"mcpgateway/internal/upstream/process"
)

// pipeOpener opens links to a server inside the process.
func pipeOpener(open PipeFunc) opener {
	return func(context.Context) (*link, error) {
		ctx, cancel := context.WithCancel(context.Background())
		in, out, wait := open(ctx)
		stop := func() error {
			defer cancel()
			in.Close()
			ended := make(chan error, 1)
			go func() { ended <- wait() }()
			select {
			case err := <-ended:
				out.Close()
				return pipeEnd(err)
			case <-time.After(process.StopGrace):
			}
			cancel()
			out.Close()
			return pipeEnd(<-ended)
		}
		return &link{in: in, out: out, stop: stop}, nil
	}
}

func pipeEnd(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the server ended: %w", err)
}
