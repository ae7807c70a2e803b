package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lines collects the output of a program.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed when more output arrives; nil if no reader waits
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return l.text.Write(p)
}

// soFar returns the output so far and a channel that closes when more arrives.
func (l *lines) soFar() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more == nil {
		l.more = make(chan struct{})
	}
	return l.text.String(), l.more
}

func (l *lines) String() string {
	text, _ := l.soFar()
	return text
}

// wait waits for a text in the output.
func (l *lines) wait(t *testing.T, text string) {
	t.Helper()
	patience := time.After(30 * time.Second)
	for {
		soFar, more := l.soFar()
		if strings.Contains(soFar, text) {
			return
		}
		select {
		case <-more:
		case <-patience:
			t.Fatalf("the gateway did not print %q but\n%s", text, soFar)
		}
	}
}

// openTerminal opens a pseudo-terminal: the side of the user, and the side of programs.
func openTerminal(t *testing.T) (terminal, inside *os.File) {
	t.Helper()
	var err error
	terminal, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	raw, err := terminal.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return terminal, inside
}

// A gateway that runs in a terminal reloads at SIGHUP, and ends when the terminal is
// closed.
func TestHangup(t *testing.T) {
	terminal, inside := openTerminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, said := t.TempDir(), &lines{}
	file := dir + "/gateway.yaml"
	if err := os.WriteFile(file, []byte("upstreams: {a: {command: sleep, args: ['1000']}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{"gateway", "run", "-c", file, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		Env: append(os.Environ(), "HOME="+dir), Stdin: inside, Stdout: said, Stderr: said,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inside.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	said.wait(t, "the gateway starts")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	said.wait(t, "configuration reloaded")
	terminal.Close()
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(said.String(), "drained") {
			t.Errorf("the gateway ended with %v and printed\n%s", err, said)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("the gateway still runs without its terminal:\n%s", said)
	}
}
