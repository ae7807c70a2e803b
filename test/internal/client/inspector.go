package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// inspector is the MCP inspector's command-line client. Every step is a new process with a new connection.
type inspector struct{ era string }

// Inspector returns the MCP inspector's command-line client in one era, over streamable HTTP.
func Inspector(era string) Client { return inspector{era} }

func (i inspector) Name() string { return "inspector " + i.era }

func (i inspector) Era() string { return i.era }

// Can excludes the methods without a --method of the command.
func (i inspector) Can(method string) bool {
	switch method {
	case "completion/complete", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return false
	}
	return can(method, i.era)
}

func (i inspector) Run(t testing.TB, target Target, steps []Step) Transcript {
	t.Helper()
	var transcript Transcript
	for _, step := range steps {
		transcript.Steps = append(transcript.Steps, i.one(t, target, step))
	}
	return transcript
}

func (i inspector) one(t testing.TB, target Target, step Step) Outcome {
	t.Helper()
	args := []string{target.URL, "--transport", "http", "--protocol-era", i.era, "--format", "json", "--quiet", "--method", step.Method}
	args = append(args, flags(step)...)
	ctx, cancel := context.WithTimeout(t.Context(), runWithin)
	defer cancel()
	stdout, stderr, err := process.Run(ctx, t, "", process.Options{Args: rig.Inspector(t, args...)})
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatalf("inspector %s: %v\n%s%s", step.Method, err, stdout, stderr)
	}
	outcome := Outcome{Method: step.Method}
	if err != nil {
		var failure struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal([]byte(stderr), &failure) != nil {
			failure.Error.Message = strings.TrimSpace(stderr)
		}
		outcome.Error = &Error{Message: failure.Error.Message}
		return outcome
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Result == nil {
		t.Fatalf("inspector %s printed %q (%v)\n%s", step.Method, stdout, err, stderr)
	}
	outcome.Result = answer.Result
	if member, ok := listMembers[step.Method]; ok {
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(answer.Result, &whole); err != nil {
			t.Fatalf("inspector %s printed %q: %v", step.Method, stdout, err)
		}
		outcome.Result = mustJSON(map[string]any{"items": whole[member]})
	}
	return outcome
}

// listMembers has the name of the array in the result of each list method.
var listMembers = map[string]string{
	"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts",
}

// flags translates the params of a step into the command's options.
func flags(step Step) []string {
	switch step.Method {
	case "tools/call":
		arguments, _ := step.Params["arguments"].(map[string]any)
		if arguments == nil {
			arguments = map[string]any{}
		}
		return []string{"--tool-name", fmt.Sprint(step.Params["name"]), "--tool-args-json", string(mustJSON(arguments))}
	case "resources/read":
		return []string{"--uri", fmt.Sprint(step.Params["uri"])}
	case "prompts/get":
		args := []string{"--prompt-name", fmt.Sprint(step.Params["name"])}
		if given, ok := step.Params["arguments"].(map[string]any); ok && len(given) > 0 {
			args = append(args, "--prompt-args")
			for _, key := range slices.Sorted(maps.Keys(given)) {
				args = append(args, fmt.Sprintf("%s=%v", key, given[key]))
			}
		}
		return args
	}
	return nil
}
