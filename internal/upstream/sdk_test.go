package upstream

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/transport/inproc"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// sdkPipe is a server made with the Go SDK. It supports both eras, and one of them
// on each stream.
func sdkPipe(s *mcp.Server) inproc.StartFunc {
	return func(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, &mcp.IOTransport{Reader: inR, Writer: outW}) }()
		return inW, outR, func() error {
			err := <-done
			done <- err
			return err
		}
	}
}

func TestSDKServer(t *testing.T) {
	type in struct {
		Name string `json:"name"`
	}
	for _, tt := range []struct {
		name     string
		era      wire.Era
		revision wire.Revision
	}{
		{"auto", wire.EraUnknown, wire.Rev20251125},
		{"legacy", wire.EraLegacy, wire.Rev20251125},
		{"modern", wire.EraModern, wire.Rev20260728},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
			mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, r *mcp.CallToolRequest, v in) (*mcp.CallToolResult, any, error) {
				if token := r.Params.GetProgressToken(); token != nil {
					_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hi " + v.Name}}}, nil, nil
			})
			r := start(t, Options{Server: Server{Pipe: sdkPipe(s), Era: tt.era}})
			if got := r.watch.wait(t, isReady); got.Revision != tt.revision || len(got.Catalog.Tools) != 1 {
				t.Errorf("revision %s, %d tools", got.Revision, len(got.Catalog.Tools))
			}
			back := &upstreamtest.Peer{}
			c := upstreamtest.ToolCall("greet", "a", back).With(wire.Raw(`{"name":"greet","arguments":{"name":"you"},"_meta":{"progressToken":"tok"}}`))
			result, err := r.Do(t.Context(), c)
			if err != nil || !strings.Contains(string(result.Raw), `"Hi you"`) {
				t.Errorf("result %s, %v", result.Raw, err)
			}
			if got := back.Got(); len(got) != 1 || !strings.Contains(got[0], `"progressToken":"tok"`) {
				t.Errorf("progress %q", got)
			}
			mcp.AddTool(s, &mcp.Tool{Name: "late"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
			got := r.watch.wait(t, func(s connector.Snapshot) bool { return s.Changes.Tools > 0 && len(s.Catalog.Tools) == 2 })
			if got.State != connector.Ready {
				t.Errorf("state %s", got.State)
			}
		})
	}
}
