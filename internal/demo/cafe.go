package demo

//lint:file-ignore SA1019 sampling is deprecated by spec 2026-07-28 but in force, and the gateway relays it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// firstModern is the first revision in which a server answers
	// input_required instead of sending requests.
	firstModern = "2026-07-28"

	// menuEdition travels as the request state of an order: the order was made
	// from this edition of the menu and is refused under another.
	menuEdition = "menu/1"

	// Keys of the questions in a call's input requests.
	askOrder = "order"
	askModel = "recommendation"
)

var (
	drinks = []string{"espresso", "flat white", "tea", "lemonade"}
	sizes  = []string{"small", "large"}

	// orderForm keeps to what every revision with elicitation allows: a flat
	// object of primitive properties, enums without titles.
	orderForm = map[string]any{
		"type": "object",
		"properties": map[string]any{
			"drink": map[string]any{"type": "string", "title": "Drink", "enum": drinks},
			"size":  map[string]any{"type": "string", "title": "Size", "enum": sizes},
		},
		"required": []string{"drink", "size"},
	}
)

// newCafe makes the server whose tools ask the client. Its handlers return the
// questions as input requests: to a modern client the SDK sends them as an
// input_required result, of a legacy client it asks them by requests of its own
// and runs the handler again with the answers.
func newCafe() Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "cafe", Title: "Café", Version: version}, &mcp.ServerOptions{
		Instructions: "A café that asks back: order opens a form, recommend asks the client's model.",
	})
	mcp.AddTool(s, &mcp.Tool{
		Name: "order", Title: "Order a drink",
		Description: "Asks by a form which drink and size it shall be.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
	}, order)
	mcp.AddTool(s, &mcp.Tool{
		Name: "recommend", Title: "Recommend a drink",
		Description: "Has the client's model choose a drink for a mood.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)},
	}, recommend)
	mcp.AddTool(s, &mcp.Tool{
		Name: "menu", Title: "The menu", Description: "Lists drinks and sizes.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)},
	}, menu)

	return Server{
		Name: "cafe", Title: "Café",
		Description: "tools that ask the client: by a form, and for its model's words",
		server:      s,
	}
}

type menuOutput struct {
	Drinks []string `json:"drinks"`
	Sizes  []string `json:"sizes"`
}

func menu(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, menuOutput, error) {
	return nil, menuOutput{Drinks: drinks, Sizes: sizes}, nil
}

type orderInput struct {
	Name string `json:"name,omitempty" jsonschema:"for whom the drink is"`
}

type orderOutput struct {
	Ordered bool   `json:"ordered"`
	Drink   string `json:"drink,omitempty"`
	Size    string `json:"size,omitempty"`
	For     string `json:"for,omitempty"`
}

func order(_ context.Context, req *mcp.CallToolRequest, in orderInput) (*mcp.CallToolResult, orderOutput, error) {
	answer, asked := req.Params.InputResponses[askOrder]
	if !asked {
		caps := req.ClientCapabilities()
		// An empty elicitation capability means forms (spec 2025-11-25, client/elicitation).
		if caps == nil || caps.Elicitation == nil || caps.Elicitation.Form == nil && caps.Elicitation.URL != nil {
			return nil, orderOutput{}, cannotAsk(req, "show a form", `{"elicitation":{"form":{}}}`)
		}
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{askOrder: &mcp.ElicitParams{
				Mode: "form", Message: "What would you like to drink?", RequestedSchema: orderForm,
			}},
			RequestState: menuEdition,
		}, orderOutput{}, nil
	}

	if req.Params.RequestState != menuEdition {
		return nil, orderOutput{}, invalidParams("the request state is not the one that came with the form: order again")
	}
	form, ok := answer.(*mcp.ElicitResult)
	if !ok {
		return nil, orderOutput{}, invalidParams("the answer to %q is not that to a form", askOrder)
	}
	if form.Action != "accept" {
		return textResult("Nothing was ordered."), orderOutput{}, nil
	}
	drink, err := choice(form.Content, "drink", drinks)
	if err != nil {
		return nil, orderOutput{}, err
	}
	size, err := choice(form.Content, "size", sizes)
	if err != nil {
		return nil, orderOutput{}, err
	}
	return textResult(fmt.Sprintf("One %s %s, coming up.", size, drink)),
		orderOutput{Ordered: true, Drink: drink, Size: size, For: in.Name}, nil
}

// choice reads one property of a filled form. The form comes from outside and,
// from a modern client, unchecked.
func choice(content map[string]any, name string, allowed []string) (string, error) {
	value, ok := content[name].(string)
	if !ok || !slices.Contains(allowed, value) {
		return "", fmt.Errorf("%s must be one of %s", name, strings.Join(allowed, ", "))
	}
	return value, nil
}

type recommendInput struct {
	Mood string `json:"mood" jsonschema:"how the guest feels"`
}

func recommend(_ context.Context, req *mcp.CallToolRequest, in recommendInput) (*mcp.CallToolResult, any, error) {
	answer, asked := req.Params.InputResponses[askModel]
	if !asked {
		caps := req.ClientCapabilities()
		if caps == nil || caps.Sampling == nil {
			return nil, nil, cannotAsk(req, "ask its model", `{"sampling":{}}`)
		}
		question := fmt.Sprintf("Which of these drinks suits the mood %q best: %s? Answer in one sentence.", in.Mood, strings.Join(drinks, ", "))
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{askModel: &mcp.CreateMessageParams{
			MaxTokens: 100,
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: question}}},
		}}}, nil, nil
	}
	var words []mcp.Content
	switch message := answer.(type) {
	case *mcp.CreateMessageResult:
		words = []mcp.Content{message.Content}
	case *mcp.CreateMessageWithToolsResult:
		words = message.Content
	default:
		return nil, nil, invalidParams("the answer to %q is not a model's message", askModel)
	}
	for _, block := range words {
		if text, ok := block.(*mcp.TextContent); ok {
			return textResult("The model recommends: " + text.Text), nil, nil
		}
	}
	return nil, nil, errors.New("the model answered without any text")
}

// cannotAsk is the answer to a client that did not declare what a tool needs:
// the error of spec 2026-07-28, basic/index to a modern one, a failed tool
// result to a legacy one.
func cannotAsk(req *mcp.CallToolRequest, what, required string) error {
	message := fmt.Sprintf("the %s tool needs a client that can %s", req.Params.Name, what)
	if req.ProtocolVersion() < firstModern {
		return errors.New(message)
	}
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: message,
		Data:    json.RawMessage(`{"requiredCapabilities":` + required + `}`),
	}
}

func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
