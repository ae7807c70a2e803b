package upstream

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// quickPipe is a legacy server with little overhead. It answers each call with the
// same 1 KiB.
func quickPipe(context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	result := `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + "\"}]}}\n"
	go func() {
		defer close(done)
		defer outW.Close()
		lines := wire.NewLineReader(inR, 1<<20)
		var out []byte
		for {
			line, err := lines.Next()
			if err != nil {
				return
			}
			id, _, found := bytes.Cut(line[len(`{"jsonrpc":"2.0",`):], []byte(","))
			if !found || !bytes.HasPrefix(id, []byte(`"id"`)) {
				continue
			}
			out = append(append(append(out[:0], `{"jsonrpc":"2.0",`...), id...), result...)
			if bytes.Contains(line, []byte(`"method":"initialize"`)) {
				out = append(append(append(out[:0], `{"jsonrpc":"2.0",`...), id...), `,"result":`+strings.ReplaceAll(upstreamtest.LegacyHello, `"tools":{"listChanged":true},`, "")+"}\n"...)
			}
			if _, err := outW.Write(out); err != nil {
				return
			}
		}
	}()
	return inW, outR, func() error { <-done; return nil }
}

// quickRig returns a ready connector to a quickPipe.
func quickRig(tb testing.TB) *connector.Connector {
	c := newConnector(Options{Name: "quick", Server: Server{Era: wire.EraLegacy, Pipe: quickPipe}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	if _, err := c.Do(ctx, upstreamtest.ToolCall("echo", "a", protocol.NoClient{})); err != nil {
		tb.Fatal(err)
	}
	return c
}

// maxCallAllocs bounds what a whole call over a pipe allocates in the
// connector, the conn and the server of the test together.
const maxCallAllocs = 20

func TestCallAllocations(t *testing.T) {
	c := quickRig(t)
	cl := upstreamtest.ToolCall("echo", "a", protocol.NoClient{})
	allocs := testing.AllocsPerRun(500, func() {
		if _, err := c.Do(t.Context(), cl); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.0f allocations a call", allocs)
	if allocs > maxCallAllocs {
		t.Errorf("%.0f allocations a call, want at most %d", allocs, maxCallAllocs)
	}
}

func BenchmarkCall(b *testing.B) {
	for _, params := range []struct{ name, params string }{
		{"plain", `{"name":"echo","arguments":{"n":1}}`},
		{"progress", `{"name":"echo","arguments":{"n":1},"_meta":{"progressToken":"tok"}}`},
	} {
		b.Run(params.name, func(b *testing.B) {
			c := quickRig(b)
			cl := upstreamtest.ToolCall("echo", "a", protocol.NoClient{}).With(wire.Raw(params.params))
			b.ReportAllocs()
			b.SetBytes(1 << 10)
			for b.Loop() {
				if _, err := c.Do(b.Context(), cl); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("16 clients", func(b *testing.B) {
		c := quickRig(b)
		var failed atomic.Pointer[error]
		b.ReportAllocs()
		b.SetBytes(1 << 10)
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			cl := upstreamtest.ToolCall("echo", "a", protocol.NoClient{})
			for pb.Next() {
				if _, err := c.Do(b.Context(), cl); err != nil {
					failed.Store(&err)
				}
			}
		})
		if err := failed.Load(); err != nil {
			b.Fatal(*err)
		}
	})
}

func BenchmarkModernParams(b *testing.B) {
	s := protocol.NewIdentity(Options{Info: protocol.Info{Name: "gw", Version: "1"}}.withDefaults().conversation())
	var back call.BackChannel = protocol.NoClient{}
	f, err := protocol.NewPendingCalls().Begin(upstreamtest.ToolCall("echo", "a", back))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Params(wire.Rev20260728, f)
	}
}
