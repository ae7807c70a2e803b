package e2e

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// TestLimits applies the limits of rules to clients of both eras. A call that waits for its user's answer does not count as running, and a refused
// client is told when to retry.
func TestLimits(t *testing.T) {
	limited := func(name, tool string, limit rig.Config) rig.Config {
		return rig.Config{"name": name, "effect": "allow", "what": rig.Config{"tools": []string{tool}}, "limit": limit}
	}
	g := rig.StartGateway(t, rig.Config{
		"upstreams": rig.Upstreams{"old": {"url": rig.Fixture(t, rig.Legacy), "era": rig.Legacy}},
		"policy": rig.Config{"default": "deny", "rules": []rig.Config{
			limited("one", "old__test_elicitation", rig.Config{"concurrent": 1, "per": "rule"}),
			limited("one-more", "old__test_simple_text", rig.Config{"concurrent": 1, "per": "upstream"}),
			limited("rare", "old__test_image_content", rig.Config{"rate": "1/m", "per": "tool"}),
		}},
	})
	for _, era := range []string{client.Legacy, client.Modern} {
		t.Run("a person thinks, "+era, func(t *testing.T) {
			const people = 3
			var thinking sync.WaitGroup // until all users are being asked at once
			thinking.Add(people)
			var wg sync.WaitGroup
			for range people {
				wg.Go(func() {
					options := &mcp.ClientSessionOptions{}
					if era == client.Legacy {
						options.ProtocolVersion = "2025-11-25"
					}
					var once sync.Once
					c := mcp.NewClient(&mcp.Implementation{Name: "person", Version: "1"}, &mcp.ClientOptions{
						ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
							once.Do(thinking.Done)
							thinking.Wait()
							return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"username": "Ann", "email": "ann@example.com"}}, nil
						},
					})
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					connections := &http.Transport{}
					defer connections.CloseIdleConnections()
					session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.URL, HTTPClient: &http.Client{Transport: connections}, MaxRetries: -1}, options)
					if err != nil {
						t.Error(err)
						thinking.Done()
						return
					}
					defer session.Close()
					params := &mcp.CallToolParams{Name: "old__test_elicitation", Arguments: map[string]any{"message": "Who are you?"}}
					for { // until the user is asked the call counts as running
						result, err := session.CallTool(ctx, params)
						if err != nil && strings.Contains(err.Error(), "Too Many Requests") && ctx.Err() == nil {
							continue
						}
						if err != nil || result.IsError {
							t.Errorf("%+v, %v", result, err)
							once.Do(thinking.Done)
						}
						return
					}
				})
			}
			wg.Wait()
		})
	}
	for i, revision := range []string{raw.Legacy, raw.Modern} {
		t.Run("too often, "+revision, func(t *testing.T) {
			c, err := raw.Open(t.Context(), g.URL, revision)
			if err != nil {
				t.Fatal(err)
			}
			params := `{"name":"old__test_image_content","arguments":{},"_meta":{` + c.Meta() + `}}`
			var answer raw.Answer
			for range 2 - i { // the limit is per tool, for all callers
				if answer, err = c.Send(t.Context(), "tools/call", params); err != nil {
					t.Fatal(err)
				}
			}
			fault := answer.Response.Fault()
			if fault == nil || fault.Code != -32603 || !strings.Contains(fault.Message, "too many calls: a limit of the gateway is reached; try again in ") || !strings.Contains(string(fault.Data), `"retryable":true`) {
				t.Errorf("got %v", fault)
			}
			if after, err := strconv.Atoi(answer.Header.Get("Retry-After")); answer.Status != http.StatusTooManyRequests || err != nil || after < 1 || after > 60 {
				t.Errorf("got %d, Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
			}
		})
	}
}
