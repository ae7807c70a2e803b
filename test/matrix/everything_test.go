package matrix

import (
	"fmt"

	"mcpgateway/test/internal/client"
)

// everything is the toolbox of @modelcontextprotocol/server-everything, as published.
var everything = toolbox{
	"tool call": func(r run) []step { return []step{r.says("Echo: hello", "echo", map[string]any{"message": "hello"})} },
	"progress": func(r run) []step {
		call := r.call("trigger-long-running-operation", map[string]any{"duration": 0.3, "steps": 3}, "Long running operation completed")
		call.Progress, call.progress = 3, []string{`"progress":1`, `"progress":2`, `"progress":3`}
		return []step{call}
	},
	// The server logs to its session, not to a call: the gateway knows the receiver only while all running calls are that client's. The server logs
	// when it gets toggle, which may come before the call does, and every five seconds after: the call takes longer than that.
	"log message": func(r run) []step {
		toggle := r.call("toggle-simulated-logging", nil)
		call := after(r.call("trigger-long-running-operation", map[string]any{"duration": 6, "steps": 1}, "Long running operation completed"),
			client.Want{Method: "notifications/message", Has: "essage - SessionId"})
		call.During = &toggle.Step
		return append(r.atLevel("debug", call), toggle)
	},
	"elicitation form": func(r run) []step {
		return []step{after(r.call("trigger-elicitation-request", nil, "User provided the requested information", "- Name: Ann"),
			r.asked("Please provide inputs for the following fields:"))}
	},
	"elicitation URL": func(r run) []step {
		ask := after(r.call("trigger-url-elicitation", map[string]any{"url": "https://example.com/sign-in", "message": "Sign in."},
			"User completed the URL elicitation flow"), r.asked("Sign in."), askedURL)
		if r.client == client.Legacy {
			ask.also = hasElicitationID
		}
		return []step{ask}
	},
	"elicitation URL by error -32042": func(r run) []step {
		arguments := map[string]any{"url": "https://example.com/sign-in", "message": "Sign in.", "elicitationId": r.key, "errorPath": true}
		enter := after(r.call("trigger-url-elicitation", arguments, "User completed the URL elicitation flow"), askedURL)
		if r.client == client.Modern {
			return []step{enter}
		}
		refused := r.call("trigger-url-elicitation", arguments)
		refused.fault = -32042
		return []step{refused, enter}
	},
	"sampling": func(r run) []step {
		return []step{after(r.call("trigger-sampling-request", map[string]any{"prompt": "What is the capital of France?"}, "LLM sampling result", "Paris"), sampling)}
	},
	"roots": func(r run) []step {
		return []step{r.call("get-roots-list", nil, "file:///home/ann")}
	},
	"subscribe and update": func(r run) []step {
		watched := map[string]any{"uri": r.uri("demo://resource/dynamic/text/1")}
		toggle := r.call("toggle-subscriber-updates", nil)
		return []step{
			{Step: client.Step{Method: "resources/subscribe", Params: watched}},
			after(toggle, client.Want{Method: "notifications/resources/updated", Has: fmt.Sprintf(`"uri":%q`, watched["uri"])}),
			toggle,
			{Step: client.Step{Method: "resources/unsubscribe", Params: watched}},
		}
	},
	"list change": func(r run) []step {
		return []step{
			after(r.call("gzip-file-as-resource", map[string]any{"name": r.key, "data": "data:text/plain,hello"}, `"type":"resource_link"`),
				client.Want{Method: "notifications/resources/list_changed"}),
			lists("resources", fmt.Sprintf(`"uri":%q`, r.uri("demo://resource/session/"+r.key))),
		}
	},
	"completion": func(r run) []step {
		return []step{
			r.complete(map[string]any{"type": "ref/prompt", "name": r.name("completable-prompt")}, "department", "E", `"values":["Engineering"]`),
			r.complete(map[string]any{"type": "ref/resource", "uri": r.uri("demo://resource/dynamic/text/{resourceId}")}, "resourceId", "7", `"values":["7"]`),
		}
	},
	"resource template": func(r run) []step {
		return r.template("demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/text/7", "Resource 7: This is a plaintext resource")
	},
	"prompt with embedded resource": func(r run) []step {
		return r.embedded("resource-prompt", map[string]any{"resourceType": "Text", "resourceId": "4"}, "demo://resource/dynamic/text/4", "Resource 4")
	},
}
