package inproc

import (
	"context"
	"fmt"
	"io"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/line"
)

// stopGrace is how long a server may take to end after in was closed.
const stopGrace = 400 * time.Millisecond

// New returns a dialer that connects a server inside the process.
func New(c *protocol.Config, open StartFunc) protocol.Dialer {
	return line.NewDialer(c, Open(open))
}

// Open returns an opener that connects the server.
func Open(open StartFunc) line.Opener {
	return func(context.Context) (*line.Link, error) {
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
			case <-time.After(stopGrace):
			}
			cancel()
			out.Close()
			return pipeEnd(<-ended)
		}
		return &line.Link{In: in, Out: out, Stop: stop}, nil
	}
}

func pipeEnd(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the server ended: %w", err)
}

// StartFunc starts a server inside the process. The server reads from the other end of
// in and writes to the other end of out. It ends when in is closed, and at the latest
// when ctx ends. wait returns when the server has ended, with the reason if it failed.
type StartFunc func(ctx context.Context) (in io.WriteCloser, out io.ReadCloser, wait func() error)
