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

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A program that writes an endless line fails its attempt long before the timeout.
// It is started once, and the reason is reported.
func TestLineTooLong(t *testing.T) {
	const size = "the server wrote more than 131072 bytes without the end of a line"
	advice, reason := failureMessages(t, Options{
		Server: Server{Stdio: &process.Config{Command: "sh", Args: []string{"-c", "yes | tr -d '\\n'"}, Env: []string{"PATH=/usr/bin:/bin"}}, MaxMessage: 64 << 10},
		Limits: connector.Limits{Timeout: time.Hour},
	})
	if want := `the program "sh" prints text that is no MCP message (` + size + `): check that it is an MCP server which speaks` +
		` over standard input and output, and that its args do not choose another transport`; advice != want {
		t.Errorf("the log says\n%s, want\n%s", advice, want)
	}
	if reason != size {
		t.Errorf("clients get %q, want %q", reason, size)
	}
}

// A ready server that writes an endless line is ended after a larger bound and
// started again.
func TestLineTooLongWhenReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{}
		s.Handle = upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			for err := error(nil); m.Method == wire.MethodToolsCall && err == nil; {
				_, err = l.Out.Write([]byte(strings.Repeat("x", 4096)))
			}
		})
		core, logs := observer.New(zap.InfoLevel)
		pipe := func(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
			in, out, wait := s.Pipe(ctx)
			return in, out, func() error { return errors.Join(wait(), errors.New("no reader")) }
		}
		r := start(t, Options{Server: Server{Pipe: pipe, MaxMessage: 64 << 10}, Limits: connector.Limits{Timeout: time.Hour}, Logger: zap.New(core)})
		r.watch.wait(t, isReady)
		began := time.Now()
		if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))); !strings.HasPrefix(got, "error: ") {
			t.Errorf("the call: %s", got)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the call failed after %s", took)
		}
		r.watch.wait(t, isDown)
		entries := logs.FilterMessage("no connection").All()
		if got := entries[0].ContextMap()["why"]; got != "the server wrote more than 1048576 bytes without the end of a line" {
			t.Errorf("the log says %s", got)
		}
		for s.Starts() < 2 {
			time.Sleep(time.Second)
		}
	})
}

// The gateway reports text that a server prints before its first message. Clients
// learn that there is such text, and operators see how it begins.
func TestNonProtocolOutputWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			switch m.Method {
			case wire.MethodInitialize:
				l.Line("\x1b[1mWelcome\x1b[0m, hunter-22" + strings.Repeat("!", 100_000))
				l.Line("more")
				<-l.Hold
				upstreamtest.Legacy(nil)(l, m)
			default:
				upstreamtest.Legacy(nil)(l, m)
			}
		}}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}, Mask: func(text string) string {
			return strings.ReplaceAll(text, "hunter-22", "[redacted]")
		}, Logger: zap.New(core)})
		snap := r.watch.wait(t, func(s connector.Snapshot) bool { return s.Reason != "" })
		if snap.State != connector.Connecting || snap.Reason != "the server prints text that is no MCP message" {
			t.Errorf("%s, %s", snap.State, snap.Reason)
		}
		begin := `Welcome, [redacted]`
		want := `the server prints text that is no MCP message, such as "` + begin + "!"
		if !strings.HasPrefix(snap.Advice, want) || len(snap.Advice) > 500 || strings.Contains(snap.Advice, "hunter") {
			t.Errorf("advice\n%s, want\n%s…", snap.Advice, want)
		}
		synctest.Wait()
		quoted := logs.FilterMessage("a line of the server is no message").FilterFieldKey("text").All()
		if len(quoted) != 1 || !strings.HasPrefix(quoted[0].ContextMap()["text"].(string), "Welcome, [redacted]!") {
			t.Errorf("the log quotes %v", quoted)
		}
		close(s.Instance(1).Hold)
		if snap := r.watch.wait(t, isReady); snap.Reason != "" {
			t.Errorf("ready with reason %s", snap.Reason)
		}
		if !slices.ContainsFunc(r.watch.all(), func(s connector.Snapshot) bool {
			return s.State == connector.Connecting && s.Reason == "" && s.Advice == ""
		}) {
			t.Error("the reason is still set after the first message")
		}
	})
}

// A server that prints text all the time does not fill the log: one line a minute says how many lines were no message.
// A line that fails a call is logged besides.
func TestNonProtocolOutputAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		s := &upstreamtest.Server{}
		s.Handle = upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodToolsCall {
				l.Line(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{},"error":{}}`)
			}
		})
		health := connector.NewHealth(connector.HealthSettings{})
		r := start(t, Options{Server: Server{Pipe: s.Pipe}, Health: health, Mask: func(text string) string {
			return strings.ReplaceAll(text, "hunter-22", "[redacted]")
		}, Logger: zap.New(core)})
		r.watch.wait(t, isReady)
		for range 130 {
			s.Instance(1).Line("\x1b[1mheartbeat\x1b[0m hunter-22")
			time.Sleep(time.Second)
		}
		printed := logs.FilterMessage("a line of the server is no message")
		if quoted := printed.FilterFieldKey("text").All(); len(quoted) != 1 || quoted[0].ContextMap()["text"] != "heartbeat [redacted]" {
			t.Errorf("the log quotes %v, want the first line", quoted)
		}
		if n := printed.Len(); n != 3 || printed.All()[n-1].ContextMap()["left_out"] != int64(59) {
			t.Errorf("%d lines, the last with %v", n, printed.All()[n-1].ContextMap())
		}
		if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))); !strings.Contains(got, "malformed") {
			t.Errorf("the call: %s", got)
		}
		if n := logs.FilterMessage("a line of the server is no message").Len(); n != 4 {
			t.Errorf("%d lines after a malformed answer, want one more", n)
		}
		skipped := health.Skipped()
		skipped.Last = time.Time{}
		if want := (connector.SkippedOutput{Lines: 130, First: "heartbeat [redacted]"}); skipped != want {
			t.Errorf("skipped %+v, want %+v", skipped, want)
		}
	})
}
