package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
)

const (
	// roleVariable makes the test binary run as a program or as a gateway.
	roleVariable = "PROCESS_TEST_ROLE"
	// pidFileVariable names a file into which a role writes process ids.
	pidFileVariable = "PROCESS_TEST_PIDS"
)

// TestMain lets the test binary be the supervisor and the programs that it starts.
func TestMain(m *testing.M) {
	SuperviseMain()
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play runs a role and returns its exit status.
func play(role string) int {
	switch role {
	case "gateway": // runs until it is killed
		c := program("stubborn", pidFileVariable+"="+os.Getenv(pidFileVariable))
		if _, err := Start(context.Background(), c, noLog); err != nil {
			return 1
		}
		select {}
	case "sleeper": // has its own process group and ends only on SIGKILL
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		select {}
	case "crash":
		fmt.Fprintln(os.Stderr, "no configuration")
		return 3
	case "hog", "parent of hogs": // use 64 MiB, or start two that do
		if role == "parent of hogs" {
			for range 2 {
				hog := exec.Command(os.Args[0])
				hog.Env = append(os.Environ(), roleVariable+"=hog")
				hog.Stdin = os.Stdin // it keeps its memory until this ends
				if err := hog.Start(); err != nil {
					return 1
				}
				notePid(hog.Process.Pid)
			}
			select {}
		}
		data := make([]byte, 64<<20)
		for i := range data {
			data[i] = byte(i)
		}
		fmt.Println("filled")
		io.Copy(io.Discard, os.Stdin)
		return int(data[0])
	case "opener": // opens files until it may not
		var files []*os.File
		for {
			f, err := os.Open(os.Args[0])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 4
			}
			files = append(files, f)
			if len(files) > 1000 {
				return 0
			}
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		for _, group := range []bool{false, true} {
			sleeper := exec.Command(os.Args[0])
			sleeper.Env = append(os.Environ(), roleVariable+"=sleeper")
			sleeper.SysProcAttr = apart(group)
			if err := sleeper.Start(); err != nil {
				return 1
			}
			notePid(sleeper.Process.Pid)
		}
		notePid(os.Getpid())
		select {}
	}
	notePid(os.Getpid())
	io.Copy(os.Stdout, os.Stdin)
	return 0
}

// noLog discards all log messages.
var noLog = Log{To: zap.NewNop(), Mask: func(s string) string { return s }}

// program runs the test binary in a role.
func program(role string, env ...string) Config {
	// The race detector would delay the end of the program by a second, more than Stop waits.
	own := []string{roleVariable + "=" + role, "GORACE=atexit_sleep_ms=0"}
	return Config{Command: os.Args[0], Env: slices.Concat(Environ(nil, nil), own, env)}
}

// run starts a program.
func run(t *testing.T, c Config, log Log) *Process {
	t.Helper()
	p, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func notePid(pid int) {
	f, err := os.OpenFile(os.Getenv(pidFileVariable), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, pid)
}

// pidsIn returns the first n process ids in the file once they are there.
func pidsIn(t *testing.T, file string, n int) []int {
	t.Helper()
	var pids []int
	polltest.Until(t, "the processes have started", func() bool {
		pids = nil
		f, err := os.Open(file)
		if err != nil {
			return false
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if pid, err := strconv.Atoi(lines.Text()); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= n
	})
	return pids
}

// alive reports whether the process exists and is not a zombie.
func alive(pid int) bool {
	if signalTo(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil { // there is no /proc, or a zombie is gone by now
		return signalTo(pid, 0) == nil
	}
	return !strings.Contains(string(stat), ") Z ")
}

func TestStartAndStop(t *testing.T) {
	p := run(t, program("echo"), noLog)
	fmt.Fprintln(p.Stdin, "hello")
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil || line != "hello\n" {
		t.Errorf("the program wrote %q, %v", line, err)
	}
	end, ok := errors.AsType[*ExitError](p.Stop())
	if !ok || end.Err != nil || end.Error() != "the server ended: exit status 0" {
		t.Errorf("it ended with %v", end)
	}
	p.Stdout.Close()
}

func TestExitStatusAndLastLine(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	p := run(t, program("crash"), Log{To: zap.New(core), Mask: noLog.Mask})
	io.Copy(io.Discard, p.Stdout)
	polltest.Until(t, "the program has ended", func() bool { return p.Ended() != nil })
	for _, how := range []error{p.Ended(), p.Stop()} {
		end, _ := errors.AsType[*ExitError](how)
		if end == nil || end.Status() != "exit status 3" || end.Words.Text != "no configuration" {
			t.Errorf("it ended with %v", end)
		}
	}
	if logs.FilterMessage("server").Len() != 1 {
		t.Errorf("the log has %v", logs.All())
	}
	p.Stdout.Close()
}

func TestStartError(t *testing.T) {
	for name, c := range map[string]Config{"command": {Command: "no-such-command"}, "directory": {Command: os.Args[0], Dir: "/no/such"}} {
		_, err := Start(t.Context(), c, noLog)
		if _, ok := errors.AsType[*StartError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Stop ends a program that ignores all requests to end, and the processes that it
// has started in any process group.
func TestStubbornProcesses(t *testing.T) {
	pids := t.TempDir() + "/pids"
	p := run(t, program("stubborn", pidFileVariable+"="+pids), noLog)
	all := pidsIn(t, pids, 3)
	p.Stop()
	p.Stdout.Close()
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d is alive after Stop has returned", pid)
		}
	}
}

// No process survives a gateway that is killed.
func TestNoOrphans(t *testing.T) {
	pids := t.TempDir() + "/pids"
	gateway := exec.Command(os.Args[0])
	gateway.Env = append(os.Environ(), roleVariable+"=gateway", pidFileVariable+"="+pids)
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	all := pidsIn(t, pids, 3)
	gateway.Process.Kill()
	gateway.Wait()
	for _, pid := range all {
		polltest.Until(t, fmt.Sprintf("process %d is dead", pid), func() bool { return !alive(pid) })
	}
}

func TestStderrIsBounded(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	text := strings.Repeat("x", 3*maxLine) + "\n\n" + strings.Repeat("again\n", 5*linesBurst)
	newStderrReader(Log{To: zap.New(core), Mask: noLog.Mask}).read(strings.NewReader(text))
	all := logs.All()
	if len(all) < linesBurst || len(all) > 2*linesBurst {
		t.Fatalf("%d lines were logged", len(all))
	}
	if first := all[0].ContextMap()["stderr"].(string); len(first) != maxLine {
		t.Errorf("the first line has %d bytes, want %d", len(first), maxLine)
	}
	if second := all[1].ContextMap()["stderr"]; second != "again" {
		t.Errorf("the second line is %q: want neither the rest of the long line nor the empty line", second)
	}
	if last := all[len(all)-1]; last.ContextMap()["lines"] == nil {
		t.Errorf("the last line does not report the number of dropped lines: %v", last)
	}
}

// A server that floods its standard error for long causes one warning a minute, with the sum of the
// lines that were left out, and few other lines. The metric counts each line.
func TestStderrFloodIsSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, perSecond = 150, 1000
		core, logs := observer.New(zap.InfoLevel)
		counted := 0
		r := newStderrReader(Log{To: zap.New(core), Mask: noLog.Mask, LeftOut: func(n int) { counted += n }})
		in, out := io.Pipe()
		go func() {
			for range seconds {
				for range perSecond {
					io.WriteString(out, "again\n")
				}
				time.Sleep(time.Second)
			}
			out.Close()
		}()
		r.read(in)
		sum, warnings := 0, logs.FilterMessage("lines of the server's standard error were left out").All()
		for _, e := range warnings {
			sum += int(e.ContextMap()["lines"].(int64))
		}
		shown := logs.FilterMessage("server").Len()
		if sum+shown != seconds*perSecond || counted != sum {
			t.Errorf("%d lines are logged, %d said to be left out, %d counted; the server wrote %d", shown, sum, counted, seconds*perSecond)
		}
		if len(warnings) != 4 || warnings[0].Time.Sub(r.last.began) > 2*time.Second { // the first at once, two a minute apart, one at the end
			t.Errorf("%d warnings, the first after %v", len(warnings), warnings[0].Time.Sub(r.last.began))
		}
		if shown > linesBurst+seconds*linesPerSecond {
			t.Errorf("%d lines of the server are logged", shown)
		}
	})
}

// A secret that a child prints is masked, also when the line is cut in the middle of
// it.
func TestStderrIsMasked(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	mask := func(s string) string { return strings.ReplaceAll(s, "hunter-22", "[redacted]") }
	before := strings.Repeat("x", maxLine-4)
	r := newStderrReader(Log{To: zap.New(core), Mask: mask})
	r.read(strings.NewReader("key=hunter-22\n" + before + "hunter-22\n" + strings.Repeat("y", maxWords-4) + "hunter-22"))
	last := r.last.words().Text
	var got []string
	for _, e := range logs.All() {
		got = append(got, e.ContextMap()["stderr"].(string))
	}
	want := []string{"key=[redacted]", before + "[red", strings.Repeat("y", maxWords-4) + "[redacted]"}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q", got)
	}
	if want := strings.Repeat("y", maxWords-4) + "[red"; last != want {
		t.Errorf("the last line is %q, want %q", last, want)
	}
}

func TestEnviron(t *testing.T) {
	for name, value := range map[string]string{
		"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "HTTPS_PROXY": "http://p", "AWS_SECRET": "s", "NAMED": "n", "BOTH": "outer",
	} {
		t.Setenv(name, value)
	}
	got := Environ([]string{"NAMED", "BOTH", "ABSENT"}, map[string]string{"OWN": "o=1", "BOTH": "inner", "HOME": "/h"})
	for _, want := range []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "HTTPS_PROXY=http://p", "NAMED=n", "OWN=o=1", "BOTH=inner"} {
		n := 0
		for _, entry := range got {
			if strings.HasPrefix(entry, want[:strings.Index(want, "=")+1]) {
				n++
				if entry != want {
					t.Errorf("%s, want %s", entry, want)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s is there %d times", want, n)
		}
	}
	for _, entry := range got {
		if strings.HasPrefix(entry, "AWS_") || strings.HasPrefix(entry, "ABSENT") {
			t.Errorf("%s is there", entry)
		}
	}
}
