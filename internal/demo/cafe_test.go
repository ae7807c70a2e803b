package demo

//lint:file-ignore SA1019 sampling is deprecated by spec 2026-07-28 but in force, and the gateway relays it.

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answering returns client options whose user gives this answer to every form.
func answering(result *mcp.ElicitResult) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return result, nil },
	}
}

func TestOrder(t *testing.T) {
	tests := []struct {
		name   string
		answer *mcp.ElicitResult
		text   string
		want   map[string]any
	}{
		{
			"accepted",
			&mcp.ElicitResult{Action: "accept", Content: map[string]any{"drink": "tea", "size": "large"}},
			"One large tea, coming up.",
			map[string]any{"ordered": true, "drink": "tea", "size": "large", "for": "Ada"},
		},
		{"declined", &mcp.ElicitResult{Action: "decline"}, "Nothing was ordered.", map[string]any{"ordered": false}},
		{"dismissed", &mcp.ElicitResult{Action: "cancel"}, "Nothing was ordered.", map[string]any{"ordered": false}},
	}
	for era, revision := range eras {
		for _, tt := range tests {
			t.Run(era+" "+tt.name, func(t *testing.T) {
				session := connect(t, find(t, "cafe"), revision, answering(tt.answer))
				res := call(t, session, &mcp.CallToolParams{Name: "order", Arguments: map[string]any{"name": "Ada"}})
				if got := text(t, res, 0); got != tt.text || res.IsError {
					t.Errorf("text %q, error %t; want %q", got, res.IsError, tt.text)
				}
				if diff := cmp.Diff(tt.want, res.StructuredContent); diff != "" {
					t.Errorf("structured content (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A modern client's answers reach the handler unchecked.
func TestOrderChecksTheRetry(t *testing.T) {
	session := connect(t, find(t, "cafe"), firstModern, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	first := call(t, session, &mcp.CallToolParams{Name: "order"})
	form, ok := first.InputRequests[askOrder].(*mcp.ElicitParams)
	if !first.NeedsInput() || !ok || form.Mode != "form" || first.RequestState != menuEdition {
		t.Fatalf("first round: %+v", first)
	}
	good := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"drink": "tea", "size": "small"}}

	tests := []struct {
		name   string
		state  string
		answer mcp.InputResponse
	}{
		{"another state", "menu/0", good},
		{"no state", "", good},
		{"a model's answer", menuEdition, &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "tea"}}},
		{"a drink that is not on the menu", menuEdition, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"drink": "poison", "size": "small"}}},
		{"no size", menuEdition, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"drink": "tea"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
				Name: "order", RequestState: tt.state, InputResponses: mcp.InputResponseMap{askOrder: tt.answer},
			})
			if err == nil && !res.IsError {
				t.Errorf("accepted: %+v", res)
			}
		})
	}
	res := call(t, session, &mcp.CallToolParams{
		Name: "order", RequestState: first.RequestState, InputResponses: mcp.InputResponseMap{askOrder: good},
	})
	if got := text(t, res, 0); got != "One small tea, coming up." {
		t.Errorf("text %q", got)
	}
}

func TestRecommend(t *testing.T) {
	for era, revision := range eras {
		t.Run(era, func(t *testing.T) {
			session := connect(t, find(t, "cafe"), revision, &mcp.ClientOptions{
				CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "Tea."}}, nil
				},
			})
			res := call(t, session, &mcp.CallToolParams{Name: "recommend", Arguments: map[string]any{"mood": "calm"}})
			if got := text(t, res, 0); got != "The model recommends: Tea." || res.IsError {
				t.Errorf("text %q, error %t", got, res.IsError)
			}
		})
	}
}

func TestClientsThatCannotBeAsked(t *testing.T) {
	tools := map[string]struct{ text, data string }{
		"order":     {"the order tool needs a client that can show a form", `{"requiredCapabilities":{"elicitation":{"form":{}}}}`},
		"recommend": {"the recommend tool needs a client that can ask its model", `{"requiredCapabilities":{"sampling":{}}}`},
	}
	for name, want := range tools {
		params := &mcp.CallToolParams{Name: name, Arguments: map[string]any{}}
		if name == "recommend" {
			params.Arguments = map[string]any{"mood": "calm"}
		}
		t.Run("legacy "+name, func(t *testing.T) {
			res := call(t, connect(t, find(t, "cafe"), legacyRevision, nil), params)
			if got := text(t, res, 0); !res.IsError || got != want.text {
				t.Errorf("error %t, text %q; want %q", res.IsError, got, want.text)
			}
		})
		t.Run("modern "+name, func(t *testing.T) {
			_, err := connect(t, find(t, "cafe"), firstModern, nil).CallTool(t.Context(), params)
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || wire.Code != mcp.CodeMissingRequiredClientCapabilities || string(wire.Data) != want.data {
				t.Errorf("got %v, want -32021 with %s", err, want.data)
			}
		})
	}
}

func TestMenu(t *testing.T) {
	res := call(t, connect(t, find(t, "cafe"), legacyRevision, nil), &mcp.CallToolParams{Name: "menu"})
	want := map[string]any{"drinks": []any{"espresso", "flat white", "tea", "lemonade"}, "sizes": []any{"small", "large"}}
	if diff := cmp.Diff(want, res.StructuredContent); diff != "" {
		t.Errorf("structured content (-want +got):\n%s", diff)
	}
}
