package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/process"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGrandchildrenDieWithTheTest(t *testing.T) {
	var grandchild int
	t.Run("inner", func(t *testing.T) {
		p := process.Start(t, process.Options{Args: []string{"sh", "-c", `sleep 600 & echo "pid $!"; wait`}})
		p.WaitReady(t, func() error {
			_, err := fmt.Sscanf(p.Output(), "pid %d\n", &grandchild)
			return err
		})
	})
	// The group was killed. The orphaned grandchild is gone or about to be reaped by init.
	polltest.Until(t, fmt.Sprintf("process %d, started by the test, is gone", grandchild), func() bool { return !alive(grandchild) })
}

func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name, script, want string
	}{
		{"ends with status 0", `trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done`, ""},
		{"ends with status 3", `trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done`, "exit status 3"},
		{"does not end", `trap '' TERM; echo up; while :; do sleep 0.01; done`, "stubborn: still running 50ms after SIGTERM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := process.Start(t, process.Options{Name: "stubborn", Args: []string{"sh", "-c", test.script}})
			p.WaitReady(t, func() error {
				if p.Output() == "" {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
			within := 10 * time.Second
			if test.name == "does not end" {
				within = 50 * time.Millisecond
			}
			got := ""
			if err := p.Stop(within); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("Stop: %q, want %q", got, test.want)
			}
		})
	}
}

func TestWaitListening(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	process.Start(t, process.Options{Args: []string{"sleep", "600"}}).WaitListening(t, listener.Addr().String())
}

func TestOutputKeepsItsEnd(t *testing.T) {
	p := process.Start(t, process.Options{Args: []string{"sh", "-c", `i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done`}})
	<-p.Exited()
	out := p.Output()
	if len(out) > 65<<10 {
		t.Errorf("kept %d bytes", len(out))
	}
	if !strings.HasSuffix(out, "line 19999\n") || strings.Contains(out, "line 0\n") {
		t.Errorf("output ends with %q", out[max(0, len(out)-40):])
	}
}

func TestRun(t *testing.T) {
	stdout, stderr, err := process.Run(t.Context(), t, "hello", process.Options{Args: []string{"sh", "-c", `cat; echo oops >&2; exit 4`}})
	if stdout != "hello" || stderr != "oops\n" || err == nil || err.Error() != "exit status 4" {
		t.Errorf("stdout %q, stderr %q, error %v", stdout, stderr, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := process.Run(ctx, t, "", process.Options{Args: []string{"sh", "-c", "sleep 600 & wait"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestEnvironmentIsSmall(t *testing.T) {
	t.Setenv("SECRET_OF_THE_MACHINE", "x")
	stdout, _, err := process.Run(t.Context(), t, "", process.Options{Args: []string{"env"}, Env: []string{"GIVEN=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stdout, "SECRET_OF_THE_MACHINE") || !strings.Contains(stdout, "GIVEN=1\n") {
		t.Errorf("environment:\n%s", stdout)
	}
}
