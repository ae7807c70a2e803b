//lint:file-ignore SA1019 sampling and roots are deprecated in 2026-07-28 and still valid

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
)

const signInURL = "https://example.com/sign-in"

// dialog is a tool that asks questions, in one or more rounds. It receives the state that it returned with its last questions ("" in the first
// round) and the answers. It returns more questions and a new state, or no questions and the tool's text.
type dialog func(state string, answers mcp.InputResponseMap) (questions mcp.InputRequestMap, next string)

// dialogs are the dialogs by the names of their tools.
var dialogs = map[string]dialog{
	"ask_form": one(askName, func(answer mcp.InputResponse) string { return "Hello, " + accepted(answer, "name") + "!" }),
	"ask_url": one(&mcp.ElicitParams{Mode: "url", Message: "Sign in.", URL: signInURL}, func(answer mcp.InputResponse) string {
		elicited, _ := answer.(*mcp.ElicitResult)
		return "The page was: " + elicited.Action
	}),
	"sample": one(askModel("What is the capital of France?"), func(answer mcp.InputResponse) string { return "The model says: " + sampled(answer) }),
	"roots": one(&mcp.ListRootsParams{}, func(answer mcp.InputResponse) string {
		var uris []string
		if roots, ok := answer.(*mcp.ListRootsResult); ok {
			for _, root := range roots.Roots {
				uris = append(uris, root.URI)
			}
		}
		return "Roots: " + strings.Join(uris, " ")
	}),
	"sample_tools": sampleTools,
	"rounds":       rounds,
}

var askName = &mcp.ElicitParams{Mode: "form", Message: "What is your name?", RequestedSchema: oneString("name")}

func oneString(name string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%[1]q]}`, name))
}

func askModel(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}}}
}

// one returns a dialog with one question.
func one(question mcp.InputRequest, say func(mcp.InputResponse) string) dialog {
	return func(state string, answers mcp.InputResponseMap) (mcp.InputRequestMap, string) {
		if state == "" {
			return mcp.InputRequestMap{"question": question}, "asked"
		}
		return nil, say(answers["question"])
	}
}

// sampleTools lets the model call a tool, and sends it the tool's result.
func sampleTools(state string, answers mcp.InputResponseMap) (mcp.InputRequestMap, string) {
	ask := mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "How warm is it in Oslo?"}}}},
		Tools:     []*mcp.Tool{{Name: "weather", InputSchema: oneString("city")}},
	}
	if state == "" {
		ask.ToolChoice = &mcp.ToolChoice{Mode: "required"}
		return mcp.InputRequestMap{"model": &ask}, "asked"
	}
	answer, _ := answers["model"].(*mcp.CreateMessageWithToolsResult)
	if answer == nil || len(answer.Content) == 0 {
		return nil, "no answer"
	}
	if use, ok := answer.Content[0].(*mcp.ToolUseContent); ok {
		toolResult := &mcp.ToolResultContent{ToolUseID: use.ID, Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("17 degrees in %v", use.Input["city"])}}}
		ask.Messages = append(ask.Messages,
			&mcp.SamplingMessageV2{Role: "assistant", Content: answer.Content},
			&mcp.SamplingMessageV2{Role: "user", Content: []mcp.Content{toolResult}})
		return mcp.InputRequestMap{"model": &ask}, "answered"
	}
	return nil, fmt.Sprintf("%s: The model says: %s", state, sampled(answer))
}

// rounds asks one question, then two at once.
func rounds(state string, answers mcp.InputResponseMap) (mcp.InputRequestMap, string) {
	switch {
	case state == "":
		return mcp.InputRequestMap{"name": askName}, "named "
	case state == "named ":
		return mcp.InputRequestMap{
			"color": &mcp.ElicitParams{Mode: "form", Message: "Which color?", RequestedSchema: oneString("color")},
			"model": askModel("What is the capital of France?"),
		}, state + accepted(answers["name"], "name")
	}
	return nil, fmt.Sprintf("%s, %s, %s", state, accepted(answers["color"], "color"), sampled(answers["model"]))
}

func accepted(answer mcp.InputResponse, name string) string {
	elicited, ok := answer.(*mcp.ElicitResult)
	if !ok || elicited.Action != "accept" {
		return fmt.Sprintf("(not accepted: %+v)", answer)
	}
	return fmt.Sprint(elicited.Content[name])
}

func sampled(answer mcp.InputResponse) string {
	message, ok := answer.(*mcp.CreateMessageWithToolsResult)
	if !ok || len(message.Content) != 1 {
		return fmt.Sprintf("(no message: %+v)", answer)
	}
	if said, ok := message.Content[0].(*mcp.TextContent); ok {
		return said.Text
	}
	return fmt.Sprintf("(%T)", message.Content[0])
}

func (f *fixture) addDialogs() {
	for name, d := range dialogs {
		f.add(name, func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
			if f.era == legacy {
				return f.converse(ctx, r, d, in)
			}
			questions, next := d(r.Params.RequestState, r.Params.InputResponses)
			if questions == nil {
				return text(next), nil
			}
			return &mcp.CallToolResult{InputRequests: questions, RequestState: next}, nil
		})
	}
}

// converse carries out a dialog with requests to the client. The requests of one round are concurrent.
func (f *fixture) converse(ctx context.Context, r *mcp.CallToolRequest, d dialog, in input) (*mcp.CallToolResult, error) {
	questions, state := d("", nil)
	for questions != nil {
		answers := make(mcp.InputResponseMap)
		group, ctx := errgroup.WithContext(ctx)
		for key, question := range questions {
			group.Go(func() error {
				answer, err := ask(ctx, r.Session, question, in.Key)
				f.mu.Lock()
				defer f.mu.Unlock()
				answers[key] = answer
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		questions, state = d(state, answers)
	}
	return text(state), nil
}

// ask sends one question to the client. After a URL question it notifies the client that the user has completed the page.
func ask(ctx context.Context, session *mcp.ServerSession, question mcp.InputRequest, key string) (mcp.InputResponse, error) {
	switch question := question.(type) {
	case *mcp.ElicitParams:
		if question.Mode != "url" {
			return session.Elicit(ctx, question)
		}
		page := *question
		page.ElicitationID = "page-" + key
		answer, err := session.Elicit(ctx, &page)
		if err != nil {
			return nil, err
		}
		return answer, session.NotifyElicitationComplete(ctx, &mcp.ElicitationCompleteParams{ElicitationID: page.ElicitationID})
	case *mcp.CreateMessageParams:
		answer, err := session.CreateMessage(ctx, question)
		if err != nil {
			return nil, err
		}
		return &mcp.CreateMessageWithToolsResult{Model: answer.Model, Role: answer.Role, StopReason: answer.StopReason, Content: []mcp.Content{answer.Content}}, nil
	case *mcp.CreateMessageWithToolsParams:
		return session.CreateMessageWithTools(ctx, question)
	case *mcp.ListRootsParams:
		return session.ListRoots(ctx, question)
	}
	return nil, fmt.Errorf("not a question: %T", question)
}
