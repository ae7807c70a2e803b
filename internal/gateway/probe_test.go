package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
)

// Servers of the TypeScript SDK v1 refuse a prompts/get without arguments, even if every argument is optional.
func TestProbeSendsArgumentsToPrompts(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "strict", Version: "1"}, nil)
	server.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "tone"}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if r.Params.Arguments == nil {
				return nil, errors.New("arguments: expected object, received undefined")
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello"}}}}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err := inProcess(t, fmt.Sprintf(`upstreams: {strict: {url: %q}}`, web.URL), t.TempDir(), nil).RunInProcess(ctx, func(ctx context.Context, p *InProcess) error {
		if err := p.WaitStarted(ctx); err != nil {
			return err
		}
		limits := inspect.ProbeLimits{Call: time.Minute}
		for kind := range limits.Items {
			limits.Items[kind] = 10
		}
		probed := p.Probe(ctx, "strict", limits)
		if len(probed) != 1 || probed[0].Kind != call.Prompt || probed[0].Outcome != inspect.ProbeOK {
			for _, r := range probed {
				t.Errorf("probed %+v", *r)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
