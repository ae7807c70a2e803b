package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/gateway"
)

// onHangup reloads the configuration at each SIGHUP until the returned function is called. In a terminal
// the signal means that the terminal was closed: then onHangup calls end, so that the gateway does not
// continue unseen.
func onHangup(g *gateway.Gateway, end func()) (stop func()) {
	hangups, done, seen := make(chan os.Signal, 1), make(chan struct{}), hasTerminal()
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range hangups {
			if seen && !hasTerminal() {
				end()
				continue
			}
			g.RequestReload(gateway.CauseSIGHUP)
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}

// onSignals calls first at the first signal that ends a process, unless ctx has ended before. The next signal has its default effect, which
// is logged: the calls that still run get no answer. Signals are taken until the returned function is called.
func onSignals(ctx context.Context, log *zap.Logger, first func()) (stop func()) {
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer close(done)
		for sig := range signals {
			if ctx.Err() == nil {
				first()
				continue
			}
			log.Warn("a second signal ends the gateway at once", zap.String("signal", sig.String()))
			endBy(sig)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// endBy ends the process as a signal does that it does not handle.
func endBy(sig os.Signal) {
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(sig) == nil {
		time.Sleep(time.Second) // until the signal has its effect
	}
	// Windows has no signals, and a shell without job control starts programs in the background with SIGINT ignored.
	os.Exit(exitFailed)
}

// hasTerminal reports whether the process belongs to a terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
