package matrix

import (
	"bufio"
	"os"
	"strings"
	"sync"

	"mcpgateway/test/internal/raw"
)

// lines is the standard output of a server. Messages are lines.
type lines struct{ mu sync.Mutex }

func (l *lines) frame(message string) string { return message + "\n" }
func (l *lines) write(text string)           { os.Stdout.WriteString(text) }
func (l *lines) end()                        { os.Stdout.Close() }
func (l *lines) stop()                       { os.Exit(exitStatus) }

// pipe serves on standard input and output until the input ends.
func (u *upstream) pipe() error {
	out := &lines{}
	u.onChange = func() { u.pipeIdle(out) }
	u.obey()
	if kind, moment, _ := u.now(); kind == exitLoop && moment != atConnect && moment != atList {
		os.Exit(exitStatus) // the moment was in the life of another process
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		m, err := raw.Read(strings.TrimSpace(line))
		if err != nil || m.Member("id") == "" || m.Method() == "" {
			continue
		}
		kind := u.faultOf(m)
		answer := func() {
			out.mu.Lock()
			defer out.mu.Unlock()
			u.send(kind, m, out)
		}
		if kind == hangs || kind == drips { // the server goes on to read
			go answer()
		} else {
			answer()
		}
	}
}

// pipeIdle does what a fault while nothing is asked does.
func (u *upstream) pipeIdle(out *lines) {
	kind, moment, _ := u.now()
	if moment != atIdle || kind == hangs {
		return
	}
	u.fault(atIdle)
	switch kind {
	case exits, exitLoop:
		u.exit(kind)
	case noAnswer:
		out.end()
	default:
		go func() {
			out.mu.Lock()
			defer out.mu.Unlock()
			u.sendIdle(kind, out)
		}()
	}
}
