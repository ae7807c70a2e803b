package process

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
)

// end returns how a program ends by itself, and its output.
func end(t *testing.T, p *Process) (*ExitError, string) {
	t.Helper()
	out, _ := io.ReadAll(p.Stdout)
	end, ok := errors.AsType[*ExitError](p.Stop())
	if !ok {
		t.Fatal("the program has not ended")
	}
	p.Stdout.Close()
	return end, string(out)
}

// A program that uses more memory than it may is killed with all of its processes, and
// the reason says so. Its processes count together.
func TestMemoryLimit(t *testing.T) {
	for _, tt := range []struct {
		role  string
		limit int64 // MiB
		ended bool
	}{
		{"hog", 48, true},
		{"hog", 640, false}, // the race detector makes it several times as large
		{"parent of hogs", 100, true},
	} {
		t.Run(tt.role, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			pids := t.TempDir() + "/pids"
			c := program(tt.role, pidFileVariable+"="+pids)
			c.Limits.Memory = tt.limit << 20
			p := run(t, c, Log{To: zap.New(core), Mask: noLog.Mask})
			if !tt.ended {
				line := make([]byte, len("filled"))
				if _, err := io.ReadFull(p.Stdout, line); err != nil {
					t.Errorf("the program does not get the memory that it may use: %v", err)
				}
				p.Stdin.Close()
			}
			got, _ := end(t, p)
			if !tt.ended {
				if got.Memory != nil || got.Err != nil || logs.Len() > 0 {
					t.Errorf("it ended with %v, log %v", got, logs.All())
				}
				return
			}
			if got.Memory == nil || got.Memory.Limit != c.Limits.Memory || got.Memory.Used <= got.Memory.Limit {
				t.Fatalf("it ended with %v", got)
			}
			if text := got.Error(); !strings.HasPrefix(text, "the server ended: it used ") || !strings.Contains(text, "limits.memory allows") {
				t.Errorf("the reason is %q", text)
			}
			if logs.FilterMessage("the server was ended: it used more memory than limits.memory allows").Len() != 1 {
				t.Errorf("the log has %v", logs.All())
			}
			if tt.role != "hog" {
				for _, pid := range pidsIn(t, pids, 2) {
					polltest.Until(t, "the process is dead", func() bool { return !alive(pid) })
				}
			}
		})
	}
}

func TestFileLimit(t *testing.T) {
	for limit, want := range map[int]string{0: "exit status 0", 64: "exit status 4"} {
		c := program("opener")
		c.Limits.Files = limit
		got, _ := end(t, run(t, c, noLog))
		if got.Status() != want || got.OutOfFiles != (limit > 0) {
			t.Errorf("with a limit of %d files it ended with %s, %q", limit, got.Status(), got.Words.Text)
		}
	}
}

// Both ways to find children agree.
func TestChildren(t *testing.T) {
	p := run(t, program("echo"), noLog)
	defer p.Stdout.Close()
	defer p.Stop()
	all := children(os.Getpid())
	if !slices.Contains(all, p.cmd.Process.Pid) {
		t.Errorf("the supervisor is not among the children %v", all)
	}
	byParent := childrenByParent(os.Getpid())
	slices.Sort(all)
	slices.Sort(byParent)
	if !slices.Equal(all, byParent) {
		t.Errorf("the children are %v and %v", all, byParent)
	}
	resident, shared := statm(os.Getpid())
	pss, ok := proportionalSet(os.Getpid())
	if !ok || pss <= 0 || pss > resident || shared <= 0 || shared > resident {
		t.Errorf("resident %d, shared %d, proportional %d", resident, shared, pss)
	}
}
