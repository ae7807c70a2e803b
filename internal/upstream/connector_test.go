package upstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"

	"mcpgateway/internal/wire"
)

func ok(l *fakeLife, m wire.Message) {
	if m.Method == wire.MethodToolsCall {
		l.result(m, `{"ok":1}`)
	}
}

// dataOf returns the data of the error that Do returned.
func dataOf(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != wire.CodeInternal {
		t.Fatalf("error %v, want one with code %d", err, wire.CodeInternal)
	}
	return string(e.Data)
}

// wait returns when the gateway has noticed the end of the n-th life.
func (s *fakeServer) wait(t *testing.T, n int) {
	t.Helper()
	select {
	case <-s.life(n).finished:
	case <-time.After(testTime):
		t.Fatal("the gateway does not notice that the server has gone")
	}
}

// calls is how many calls of tools the server has got, in all its lives.
func (s *fakeServer) calls() int {
	sent := 0
	for n := range s.starts() {
		for _, method := range s.life(n + 1).methods() {
			if method == wire.MethodToolsCall {
				sent++
			}
		}
	}
	return sent
}

func TestBackoff(t *testing.T) {
	var b protocol.Backoff
	now := time.Unix(0, 0)
	for i, nominal := range []time.Duration{250, 500, 1000, 2000, 4000, 5000, 5000} {
		got := b.Next(now)
		if top := nominal * time.Millisecond; got > top || got < top/2 {
			t.Errorf("pause %d is %s, want within %s and %s", i+1, got, top/2, top)
		}
	}
	if got := b.Next(now.Add(time.Minute)); got < 15*time.Second || got > 30*time.Second {
		t.Errorf("after a minute the pause is %s", got)
	}
	b.Reset()
	if got := b.Next(now); got > 250*time.Millisecond {
		t.Errorf("after a success the pause is %s", got)
	}
}

func TestOptionsWithoutTransport(t *testing.T) {
	want := "upstream: exactly one of Stdio, Pipe and HTTP must be set"
	if err := newConnector(Options{Name: "x"}).Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
	both := Options{Name: "x", Server: Server{Stdio: &process.Config{Command: "x"}, Pipe: (&fakeServer{}).pipe}}
	if err := newConnector(both).Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
}

func page(n, of, size int) string {
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	for i := range size {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"t%d","inputSchema":{"type":"object"}}`, n*size+i)
	}
	b.WriteString(`]`)
	if n+1 < of {
		fmt.Fprintf(&b, `,"nextCursor":"p%d"`, n+1)
	}
	return b.String() + `}`
}
