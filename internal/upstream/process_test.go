package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// roleVariable makes the test binary play a part: that of a server, or that of
// a gateway.
const roleVariable = "UPSTREAM_TEST_ROLE"

// pidFileVariable names a file into which a part writes the ids of processes.
const pidFileVariable = "UPSTREAM_TEST_PIDS"

// play acts the part and returns the exit status.
func play(role string) int {
	switch role {
	case "gateway":
		return playGateway()
	case "sleeper": // ends by SIGKILL only, and has left the group of whoever started it
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		time.Sleep(time.Hour)
		return 0
	case "crash":
		fmt.Fprintln(os.Stderr, "no configuration")
		return 3
	}
	return playServer(role)
}

// playServer is a legacy server over standard streams.
func playServer(role string) int {
	if role == "stubborn" {
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
	}
	notePid(os.Getpid())
	if role == "garbage" {
		fmt.Println("Welcome to the server!\n{\"level\":\"info\"}\n\xff\xfe")
	}
	lines := wire.NewLineReader(os.Stdin, 1<<20)
	for {
		line, err := lines.Next()
		if err != nil {
			break
		}
		m, err := wire.Parse(line, wire.Limits{})
		if err != nil || role == "silent" {
			continue
		}
		reply := ""
		switch m.Method {
		case wire.MethodInitialize:
			reply = legacyHello
		case wire.MethodToolsList:
			reply = twoTools
		case wire.MethodToolsCall:
			if role == "fragile" {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"resu`, m.ID)
				return 9
			}
			reply = fmt.Sprintf(`{"pid":%d,"env":%s,"dir":%s}`, os.Getpid(), wire.String(strings.Join(os.Environ(), " ")), wire.String(workDir()))
		case wire.MethodDiscover:
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}\n", m.ID)
			continue
		default:
			continue
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, reply)
	}
	if role == "stubborn" {
		time.Sleep(time.Hour)
	}
	return 0
}

// playGateway runs a connector until it is killed.
func playGateway() int {
	c := New(Options{Name: "files", Era: wire.EraLegacy, Stdio: &StdioOptions{
		Command: os.Args[0],
		Env:     append(Environ([]string{pidFileVariable}, nil), roleVariable+"=stubborn"),
	}})
	_ = c.Run(context.Background())
	return 0
}

func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	return dir
}

func notePid(pid int) {
	f, err := os.OpenFile(os.Getenv(pidFileVariable), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, pid)
}

// pidsIn returns what was written into the file, once there are n.
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

// alive reports whether there is a process of that id that is no zombie.
func alive(pid int) bool {
	if signalTo(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func stdio(role string, env ...string) *StdioOptions {
	return &StdioOptions{
		Command: os.Args[0],
		Env:     append(append(Environ(nil, nil), roleVariable+"="+role), env...),
	}
}

func TestProcess(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "hush")
	dir := t.TempDir()
	o := stdio("garbage", "OWN=1")
	o.Dir = dir
	r := start(t, Options{Stdio: o})
	result, err := r.Do(t.Context(), toolCall("echo", "a", &peer{}))
	if err != nil {
		t.Fatal(err)
	}
	v := wire.ValueOf(result.Raw)
	env := v.Get("env").Str()
	if !strings.Contains(env, "OWN=1") || !strings.Contains(env, "PATH=") || strings.Contains(env, "hush") {
		t.Errorf("the server's environment is %s", env)
	}
	if got := v.Get("dir").Str(); got != dir {
		t.Errorf("the server works in %s, want %s", got, dir)
	}
}

func TestProcessFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stdio  *StdioOptions
		reason string
	}{
		{"exits at start", stdio("crash"), "the server ended: exit status 3"},
		// Paths of the gateway's machine are for its log.
		{"no such command", &StdioOptions{Command: "no-such-command"}, "cannot start the server's program"},
		{"no such directory", &StdioOptions{Command: os.Args[0], Dir: "/no/such"}, "cannot start the server's program"},
		{"never answers", stdio("silent"), "the server did not introduce itself within 100ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Stdio: tt.stdio}
			if tt.name == "never answers" {
				o.Timeout = 100 * time.Millisecond
			}
			r := start(t, o)
			if got := r.watch.wait(t, isDown); got.Reason != tt.reason {
				t.Errorf("reason %q, want %q", got.Reason, tt.reason)
			}
		})
	}
}

// Nothing of a program stays open once it has ended.
func TestProcessLeavesNothingOpen(t *testing.T) {
	o := Options{Stdio: stdio("plain")}.withDefaults()
	link, err := stdioOpener(o)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	newLineConn(o, &self{}, link, newMailbox(o)).shut()
	if _, err := link.in.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its input is open: %v", err)
	}
	if _, err := link.out.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its output is open: %v", err)
	}
}

func TestProcessDiesInCall(t *testing.T) {
	r := start(t, Options{Stdio: stdio("fragile")})
	_, err := r.Do(t.Context(), toolCall("echo", "a", &peer{}))
	if got := dataOf(t, err); !strings.Contains(got, `"reason":"the connection to the server was lost"`) {
		t.Errorf("data %s", got)
	}
	if got := r.watch.wait(t, isDown).Reason; got != "the server ended: exit status 9" {
		t.Errorf("reason %q", got)
	}
}

func TestProcessIsRestarted(t *testing.T) {
	r := start(t, Options{Stdio: stdio("plain")})
	pid := func() int64 {
		result, err := r.Do(t.Context(), toolCall("echo", "a", &peer{}))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := wire.ValueOf(result.Raw).Get("pid").Int()
		return n
	}
	first := pid()
	if err := signalTo(int(first), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Only when all its threads are gone, and with them its end of the pipe, it
	// is certain for the gateway, too, that a call was not sent.
	polltest.Until(t, "the server is gone", func() bool { return signalTo(int(first), 0) != nil })
	if second := pid(); second == first {
		t.Error("the dead server answered")
	}
	if got := r.watch.wait(t, isDown).Reason; got != "the server ended: exit status 137" {
		t.Errorf("reason %q", got)
	}
}

// Neither a server that ignores every request to end survives its connector,
// nor what it has started, in its own process group or in another.
func TestStubbornProcesses(t *testing.T) {
	pids := t.TempDir() + "/pids"
	watch := newWatcher()
	c := New(Options{Name: "files", Observer: watch, Era: wire.EraLegacy, Stdio: stdio("stubborn", pidFileVariable+"="+pids)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	watch.wait(t, isReady)
	all := pidsIn(t, pids, 3)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d is alive after Run has returned", pid)
		}
	}
}

// The same when the gateway is killed and can do nothing more.
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

func TestStderrIsLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := start(t, Options{Stdio: stdio("crash"), Logger: zap.New(core)})
	r.watch.wait(t, isDown)
	found := false
	for _, e := range logs.FilterMessage("server").All() {
		found = found || e.ContextMap()["stderr"] == "no configuration" && e.ContextMap()["upstream"] == "files"
	}
	if !found {
		t.Errorf("the log has %v", logs.All())
	}
}

func TestStderrIsBounded(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	text := strings.Repeat("x", 3*maxLogged) + "\n\n" + strings.Repeat("again\n", 5*stderrBurst)
	logLines(strings.NewReader(text), zap.New(core), func(s string) string { return s })
	all := logs.All()
	if len(all) < stderrBurst || len(all) > 2*stderrBurst {
		t.Fatalf("%d lines were logged", len(all))
	}
	if first := all[0].ContextMap()["stderr"].(string); len(first) != maxLogged {
		t.Errorf("the first line has %d bytes, want %d", len(first), maxLogged)
	}
	if second := all[1].ContextMap()["stderr"]; second != "again" {
		t.Errorf("the second line is %q: the rest of the long one, or the empty one", second)
	}
	if last := all[len(all)-1]; last.ContextMap()["lines"] == nil {
		t.Errorf("the last line does not say how many were left out, but %v", last)
	}
}

// A secret that a child prints is masked, also where the line is cut in it.
func TestStderrIsMasked(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	mask := func(s string) string { return strings.ReplaceAll(s, "hunter-22", "[redacted]") }
	before := strings.Repeat("x", maxLogged-4)
	last := logLines(strings.NewReader("key=hunter-22\n"+before+"hunter-22\n"+strings.Repeat("y", maxSaid-4)+"hunter-22"), zap.New(core), mask)
	var got []string
	for _, e := range logs.All() {
		got = append(got, e.ContextMap()["stderr"].(string))
	}
	want := []string{"key=[redacted]", before + "[red", strings.Repeat("y", maxSaid-4) + "[redacted]"}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q", got)
	}
	if want := strings.Repeat("y", maxSaid-4) + "[red"; last != want {
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
