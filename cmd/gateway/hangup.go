package main

import (
	"os"
	"os/signal"
	"syscall"

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

// hasTerminal reports whether the process belongs to a terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
