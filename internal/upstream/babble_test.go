package upstream

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/process"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/wire"
)

// A program that writes a line without end is given up long before the timeout, with
// one start, and with the reason.
func TestEndlessProgram(t *testing.T) {
	const size = "the server wrote more than 131072 bytes without the end of a line"
	logged, told := why(t, Options{
		Server: Server{Stdio: &process.Config{Command: "sh", Args: []string{"-c", "yes | tr -d '\\n'"}, Env: []string{"PATH=/usr/bin:/bin"}}, MaxMessage: 64 << 10},
		Limits: connector.Limits{Timeout: time.Hour},
	})
	if want := `the program "sh" prints text that is no MCP message (` + size + `): check that it is an MCP server which speaks` +
		` over standard input and output, and that its args do not choose another transport`; logged != want {
		t.Errorf("the log says\n%s, want\n%s", logged, want)
	}
	if told != size {
		t.Errorf("clients are told %q, want %q", told, size)
	}
}

// So is a server that was at work, after more of it. It is started again.
func TestEndlessAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		s.handle = legacy(func(l *fakeLife, m wire.Message) {
			for err := error(nil); m.Method == wire.MethodToolsCall && err == nil; {
				_, err = l.out.Write([]byte(strings.Repeat("x", 4096)))
			}
		})
		core, logs := observer.New(zap.InfoLevel)
		pipe := func(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
			in, out, wait := s.pipe(ctx)
			return in, out, func() error { return errors.Join(wait(), errors.New("nobody reads")) }
		}
		r := start(t, Options{Server: Server{Pipe: pipe, MaxMessage: 64 << 10}, Limits: connector.Limits{Timeout: time.Hour}, Logger: zap.New(core)})
		r.watch.wait(t, isReady)
		began := time.Now()
		if got := outcomeOf(r.Do(t.Context(), toolCall("echo", "ann", &peer{}))); !strings.HasPrefix(got, "error: ") {
			t.Errorf("the call: %s", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the call fails after %s", took)
		}
		r.watch.wait(t, isDown)
		entries := logs.FilterMessage("no connection").All()
		if got := entries[0].ContextMap()["why"]; got != "the server wrote more than 1048576 bytes without the end of a line" {
			t.Errorf("the log says %s", got)
		}
		for s.starts() < 2 {
			time.Sleep(time.Second)
		}
	})
}

// What a server prints before its first message is told while it is waited for: to
// clients that it does, to those who run the gateway how it begins.
func TestBabbleIsToldWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
			switch m.Method {
			case wire.MethodInitialize:
				l.line("\x1b[1mWelcome\x1b[0m, hunter-22" + strings.Repeat("!", 100_000))
				l.line("more")
				<-l.hold
				legacy(nil)(l, m)
			default:
				legacy(nil)(l, m)
			}
		}}
		r := start(t, Options{Server: Server{Pipe: s.pipe}, Mask: func(text string) string {
			return strings.ReplaceAll(text, "hunter-22", "[redacted]")
		}})
		snap := r.watch.wait(t, func(s connector.Snapshot) bool { return s.Reason != "" })
		if snap.State != connector.Connecting || snap.Reason != "the server prints text that is no MCP message" {
			t.Errorf("%s, %s", snap.State, snap.Reason)
		}
		begin := `\x1b[1mWelcome\x1b[0m, [redacted]`
		want := `the server prints text that is no MCP message, such as "` + begin + "!"
		if !strings.HasPrefix(snap.Advice, want) || len(snap.Advice) > 500 || strings.Contains(snap.Advice, "hunter") {
			t.Errorf("the advice is\n%s, want\n%s…", snap.Advice, want)
		}
		synctest.Wait()
		close(s.life(1).hold)
		if snap := r.watch.wait(t, isReady); snap.Reason != "" {
			t.Errorf("ready, but %s", snap.Reason)
		}
		if !slices.ContainsFunc(r.watch.all(), func(s connector.Snapshot) bool {
			return s.State == connector.Connecting && s.Reason == "" && s.Advice == ""
		}) {
			t.Error("the first message does not end it")
		}
	})
}
