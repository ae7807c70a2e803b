package main

import (
	"context"
	"os/exec"
	"runtime"
)

// browserCommand returns the command that opens a URL in the user's browser, nil if there is
// none: in a session over ssh the browser would open on another machine, and without a
// display nothing can open.
func browserCommand(goos string, lookup func(string) (string, bool), url string) []string {
	isSet := func(name string) bool {
		v, _ := lookup(name)
		return v != ""
	}
	switch {
	case isSet("SSH_CONNECTION"), isSet("SSH_TTY"), isSet("SSH_CLIENT"):
		return nil
	case goos == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", url}
	case goos == "darwin":
		return []string{"open", url}
	case isSet("DISPLAY"), isSet("WAYLAND_DISPLAY"):
		return []string{"xdg-open", url}
	}
	return nil
}

// openBrowser opens a URL, which is http or https, in the user's browser. It reports whether
// a program was started for it.
func openBrowser(ctx context.Context, url string) bool {
	command := browserCommand(runtime.GOOS, lookupEnv, url)
	if command == nil {
		return false
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	if cmd.Start() != nil {
		return false
	}
	go func() { _ = cmd.Wait() }() // the program ends by itself, and says nothing that the user has to know
	return true
}
