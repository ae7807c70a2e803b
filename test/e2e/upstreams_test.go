package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// upstream is one server behind the gateway.
type upstream struct {
	name   string
	config rig.Config    // its entry in the gateway's configuration
	target client.Target // for a client without the gateway
	asker  client.Client // the client that connects without the gateway
	// conditional: the server lists more tools to a client that can answer questions. The gateway can, asker cannot.
	conditional bool
	exercises   []exercise
}

// exercise is one request with native names, and the parts that its result must contain.
type exercise struct {
	step      client.Step
	want      []string // parts of the result's JSON; uriMark stands before URIs
	essential bool     // also for the slow clients
}

func call(tool string, arguments map[string]any, want ...string) exercise {
	return exercise{step: client.Step{Method: "tools/call", Params: named(tool, arguments)}, want: want}
}

func read(uri string, want ...string) exercise {
	want = append(want, `"uri":"`+uriMark+uri+`"`)
	return exercise{step: client.Step{Method: "resources/read", Params: map[string]any{"uri": uri}}, want: want}
}

func prompt(name string, arguments map[string]any, want ...string) exercise {
	return exercise{step: client.Step{Method: "prompts/get", Params: named(name, arguments)}, want: want}
}

// named returns params without nil arguments: null is not a valid value for them.
func named(name string, arguments map[string]any) map[string]any {
	params := map[string]any{"name": name}
	if arguments != nil {
		params["arguments"] = arguments
	}
	return params
}

func complete(ref map[string]any, argument, value string, want ...string) exercise {
	return exercise{step: client.Step{Method: "completion/complete", Params: map[string]any{
		"ref": ref, "argument": map[string]any{"name": argument, "value": value},
	}}, want: want}
}

func essential(e exercise) exercise {
	e.essential = true
	return e
}

// upstreams starts the HTTP servers and describes all servers.
func upstreams(t *testing.T) []upstream {
	t.Helper()
	all := []upstream{
		overStdio("everything", rig.EverythingCommand(t), nil, everything...),
		overURL("everything-http", client.Target{URL: rig.EverythingHTTP(t)}, everything...),
		overURL("everything-sse", client.Target{SSE: rig.EverythingSSE(t)}, everything...),
	}
	for i := range all {
		all[i].conditional = true
	}

	folder := t.TempDir()
	file := filepath.Join(folder, "note.txt")
	if err := os.WriteFile(file, []byte("written by the test"), 0o600); err != nil {
		t.Fatal(err)
	}
	memory, memoryEnv := rig.MemoryCommand(t)
	modern := overURL("modern", client.Target{URL: rig.Fixture(t, rig.Modern)}, fixture...)
	modern.asker = client.V2(client.Modern)
	return append(all,
		overStdio("files", rig.FilesystemCommand(t, folder), nil,
			essential(call("read_text_file", map[string]any{"path": file}, `"text":"written by the test"`, `"structuredContent":{"content":"written by the test"}`)),
			call("read_text_file", map[string]any{"path": "/etc/hostname"}, `"isError":true`, "Access denied"),
		),
		overStdio("memory", memory, memoryEnv,
			essential(call("create_entities", map[string]any{"entities": []any{
				map[string]any{"name": "a node", "entityType": "thing", "observations": []any{"seen"}},
			}}, `"structuredContent":`)),
			call("open_nodes", map[string]any{"names": []any{"a node"}}, `"entityType":"thing"`, `"observations":["seen"]`),
			essential(read("memory://knowledge-graph", "a node")),
		),
		overStdio("thinking", rig.ThinkingCommand(t), nil,
			essential(call("sequentialthinking", map[string]any{
				"thought": "a thought", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": true,
			}, `"thoughtNumber":1`, `"totalThoughts":2`)),
		),
		overStdio("browser", rig.PlaywrightCommand(t), nil), // lists only: no browser is installed
		modern,
	)
}

func overStdio(name string, command []string, env map[string]string, exercises ...exercise) upstream {
	config := rig.Config{"command": command[0], "args": command[1:]}
	if len(env) > 0 {
		config["env"] = env
	}
	return upstream{name: name, config: config, target: client.Target{Command: command, Env: env}, asker: client.V1(), exercises: exercises}
}

// overURL lets the gateway detect the server's transport and era.
func overURL(name string, target client.Target, exercises ...exercise) upstream {
	return upstream{name: name, config: rig.Config{"url": target.URL + target.SSE}, target: target, asker: client.V1(), exercises: exercises}
}

// everything exercises the npm server "everything".
var everything = []exercise{
	essential(call("get-sum", map[string]any{"a": 2, "b": 3}, "The sum of 2 and 3 is 5.")),
	call("get-structured-content", map[string]any{"location": "Chicago"}, `"structuredContent":`, `"conditions":"Light rain / drizzle"`),
	call("get-resource-links", map[string]any{"count": 2},
		`"type":"resource_link"`, `"uri":"`+uriMark+`demo://resource/dynamic/blob/1"`, `"uri":"`+uriMark+`demo://resource/dynamic/text/2"`),
	call("get-resource-reference", map[string]any{"resourceType": "Text", "resourceId": 3}, `"uri":"`+uriMark+`demo://resource/dynamic/text/3"`),
	call("get-tiny-image", nil, `"type":"image"`, `"mimeType":"image/png"`),
	{
		step: client.Step{Method: "tools/call", Progress: 2, Params: map[string]any{
			"name": "trigger-long-running-operation", "arguments": map[string]any{"duration": 0.2, "steps": 2},
		}},
		want: []string{"Long running operation completed. Duration: 0.2 seconds, Steps: 2."},
	},
	essential(read("demo://resource/dynamic/text/7", "Resource 7: This is a plaintext resource")),
	read("demo://resource/dynamic/blob/8", `"blob":`),
	read("demo://resource/static/document/features.md", `"mimeType":"text/markdown"`),
	essential(prompt("args-prompt", map[string]any{"city": "Oslo"}, "weather in Oslo?")),
	prompt("resource-prompt", map[string]any{"resourceType": "Text", "resourceId": "4"}, `"uri":"`+uriMark+`demo://resource/dynamic/text/4"`),
	complete(map[string]any{"type": "ref/prompt", "name": "completable-prompt"}, "department", "E", `"values":["Engineering"]`),
	complete(map[string]any{"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}, "resourceId", "7", `"values":["7"]`),
}

// fixture exercises the Go SDK's conformance server as an example of a modern server.
var fixture = []exercise{
	essential(call("test_simple_text", nil, "This is a simple text response for testing.")),
	call("test_embedded_resource", nil, `"uri":"`+uriMark+`test://embedded-resource"`),
	call("test_error_handling", nil, `"isError":true`),
	{
		step: client.Step{Method: "tools/call", Progress: 3, Params: map[string]any{"name": "test_tool_with_progress", "arguments": map[string]any{}}},
		want: []string{`"type":"text"`},
	},
	essential(read("test://static-text", "This is the content of the static text resource.")),
	read("test://template/42/data", "42"),
	essential(prompt("test_simple_prompt", nil, "This is a simple prompt for testing.")),
	prompt("test_prompt_with_embedded_resource", map[string]any{"resourceUri": "test://example-resource"}, `"type":"resource"`),
	complete(map[string]any{"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "arg1", "t", `"values":[`),
}
