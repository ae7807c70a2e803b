package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/transport/line"
	"mcpgateway/internal/upstream/transport/stdio"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// roleVariable makes the test binary run as a server.
const roleVariable = "UPSTREAM_TEST_ROLE"

// play runs a role and returns its exit status.
func play(role string) int {
	switch role {
	case "crash":
		fmt.Fprintln(os.Stderr, "no configuration")
		return 3
	}
	return playServer(role)
}

// playServer is a legacy server over standard streams.
func playServer(role string) int {
	if role == "garbage" {
		fmt.Println("Welcome to the server!\n{\"level\":\"info\"}\n\xff\xfe")
	}
	lines, calls := wire.NewLineReader(os.Stdin, 4<<20), 0
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
			reply = upstreamtest.LegacyHello
		case wire.MethodToolsList:
			reply = upstreamtest.TwoTools
		case wire.MethodToolsCall:
			if role == "fragile" {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"resu`, m.ID)
				return 9
			}
			if role == "fragile for two" {
				if calls++; calls < 2 {
					continue
				}
				fmt.Fprintln(os.Stderr, "fatal: no room for TOKEN-9")
				return 9
			}
			if role == "mute after a call" { // it ends only when the gateway ends it
				os.Stdout.Close()
				time.Sleep(time.Hour)
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
	return 0
}

func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	return dir
}

func testProgram(role string, env ...string) *process.Config {
	return &process.Config{
		Command: os.Args[0],
		Env:     append(append(process.Environ(nil, nil), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0"), env...),
	}
}

func TestProcess(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "hush")
	dir := t.TempDir()
	o := testProgram("garbage", "OWN=1")
	o.Dir = dir
	r := start(t, Options{Server: Server{Stdio: o}})
	result, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
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

func TestProcessStartErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stdio  *process.Config
		reason string
	}{
		{"exits at start", testProgram("crash"), "the server ended: exit status 3"},
		// Clients do not see paths of the gateway's machine.
		{"no such command", &process.Config{Command: "no-such-command"}, "cannot start the server's program"},
		{"no such directory", &process.Config{Command: os.Args[0], Dir: "/no/such"}, "cannot start the server's program"},
		{"never answers", testProgram("silent"), "the server did not introduce itself within 100ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Server: Server{Stdio: tt.stdio}}
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

// All pipes of a program are closed once it has ended.
func TestProcessLeavesNothingOpen(t *testing.T) {
	o := Options{Server: Server{Stdio: testProgram("plain")}}.withDefaults()
	o.Era = wire.EraLegacy
	var opened *line.Link
	conn, _, err := line.NewDialer(o.conversation(), func(ctx context.Context) (*line.Link, error) {
		var err error
		opened, err = stdio.Open(o.conversation(), *o.Stdio)(ctx)
		return opened, err
	}).Dial(t.Context(), make(recordedNotifications, 1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	conn.Run(ctx)
	if _, err := opened.In.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its input is open: %v", err)
	}
	if _, err := opened.Out.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its output is open: %v", err)
	}
}

func TestProcessDiesInCall(t *testing.T) {
	r := start(t, Options{Server: Server{Stdio: testProgram("fragile")}})
	_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
	if got := upstreamtest.DataOf(t, err); !strings.Contains(got, `"reason":"the connection to the server was lost"`) {
		t.Errorf("data %s", got)
	}
	if got := r.watch.wait(t, isDown).Reason; got != "the server ended: exit status 9" {
		t.Errorf("reason %q", got)
	}
}

func TestProcessIsRestarted(t *testing.T) {
	r := start(t, Options{Server: Server{Stdio: testProgram("plain")}})
	pid := func() int64 {
		result, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := wire.ValueOf(result.Raw).Get("pid").Int()
		return n
	}
	first := pid()
	if err := kill(int(first)); err != nil {
		t.Fatal(err)
	}
	// The gateway knows that a call was not sent only after all threads of the process have
	// ended and its end of the pipe is closed.
	polltest.Until(t, "the server is gone", func() bool { return kill(int(first)) != nil })
	if second := pid(); second == first {
		t.Error("the ended server answered")
	}
	if got := r.watch.wait(t, isDown).Reason; got != "the server ended: exit status 137" {
		t.Errorf("reason %q", got)
	}
}

func TestStderrIsLogged(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := start(t, Options{Server: Server{Stdio: testProgram("crash")}, Logger: zap.New(core)})
	r.watch.wait(t, isDown)
	found := false
	for _, e := range logs.FilterMessage("server").All() {
		found = found || e.ContextMap()["stderr"] == "no configuration" && e.ContextMap()["upstream"] == "files"
	}
	if !found {
		t.Errorf("the log has %v", logs.All())
	}
}

// kill kills a process. It fails if there is no such process.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
