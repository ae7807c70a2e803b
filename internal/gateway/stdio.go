package gateway

import (
	"context"
	"io"
	"time"

	"go.uber.org/zap"
)

// serveStdio serves the client on a pipe until it has closed its end, or until
// ctx ends and the calls that run have come to their end, within drain_timeout.
func (g *Gateway) serveStdio(ctx, life context.Context, in io.Reader, out io.Writer) error {
	life, end := context.WithCancel(life)
	defer end()
	served := make(chan error, 1)
	go func() { served <- g.front.ServeStdio(life, in, out, g.generation.Load().cfg.DrainTimeout) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	g.draining.Store(true)
	g.log.Info("draining", zap.Duration("timeout", g.generation.Load().cfg.DrainTimeout))
	g.front.Drain()
	timer := time.NewTimer(g.generation.Load().cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case err := <-served:
		return err
	case <-timer.C:
		g.log.Warn("calls were still running after drain_timeout and are ended")
	}
	g.front.Stop()
	timer.Reset(stopTimeout)
	select {
	case err := <-served:
		return err
	case <-timer.C:
	}
	end()
	return <-served
}
