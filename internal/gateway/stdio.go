package gateway

import (
	"context"
	"io"
	"time"

	"mcpgateway/internal/call"
)

// serveStdio serves the client on a pipe until the client closes its end. When ctx ends,
// it drains: calls in progress have drain_timeout to end.
func (g *Gateway) serveStdio(ctx, life context.Context, in io.Reader, out io.Writer) error {
	life, end := context.WithCancel(life)
	defer end()
	served := make(chan error, 1)
	go func() {
		served <- g.front.ServeStdio(life, call.Local.In(g.profile), in, out, g.generation.Load().cfg.DrainTimeout)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(g.beginDrain())
	defer timer.Stop()
	select {
	case err := <-served:
		return err
	case <-timer.C:
	}
	g.stopCalls()
	timer.Reset(stopTimeout)
	select {
	case err := <-served:
		return err
	case <-timer.C:
	}
	end()
	return <-served
}
