package matrix

import (
	"encoding/json"
	"fmt"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// run is one client with one server.
type run struct {
	upstream string  // name of the server in the gateway, "" without a gateway
	era      rig.Era // of the connection to the server
	client   string  // era of the client
	key      string  // unique in all runs
	timeout  int     // timeout of expected events in milliseconds; 0 for the default
}

// name and uri return the public forms. They do not use the gateway's code, on purpose: a test that used that code would follow any change
// of it.
func (r run) name(native string) string { return r.prefix("__") + native }
func (r run) uri(native string) string  { return r.prefix("+") + native }

func (r run) prefix(separator string) string {
	if r.upstream == "" {
		return ""
	}
	return r.upstream + separator
}

// toolbox has the steps of the features, with a server's own names. It omits features that the server does not have.
type toolbox map[string]func(run) []step

// features are the rows of the table, in its order.
var features = []string{
	"tool call", "progress", "log message", "cancellation", "elicitation form", "elicitation URL", "elicitation URL by error -32042", "sampling",
	"sampling with tools", "several rounds of asks", "roots", "subscribe and update", "list change", "completion", "resource template",
	"prompt with embedded resource",
}

func (r run) call(tool string, arguments map[string]any, has ...string) step {
	if arguments == nil {
		arguments = map[string]any{}
	}
	return step{
		Step: client.Step{Method: "tools/call", Params: map[string]any{"name": r.name(tool), "arguments": arguments}},
		has:  has,
	}
}

// says returns a call whose result is this text.
func (r run) says(text, tool string, arguments map[string]any) step {
	return r.call(tool, arguments, fmt.Sprintf(`"text":%q`, text))
}

func (r run) keyed() map[string]any { return map[string]any{"key": r.key} }

// after lets a step wait for events.
func after(s step, wants ...client.Want) step {
	s.Await = wants
	return s
}

// atLevel returns the steps of a call with log messages at a level, which the client sets for the session or in the call.
func (r run) atLevel(level string, call step) []step {
	if r.client == client.Legacy {
		return []step{{Step: client.Step{Method: "logging/setLevel", Params: map[string]any{"level": level}}}, call}
	}
	call.Params["_meta"] = map[string]any{"io.modelcontextprotocol/logLevel": level}
	return []step{call}
}

// asked is the event of a question to the client's user, with the server's name before the question.
func (r run) asked(question string) client.Want {
	return client.Want{Method: "elicitation/create", Has: fmt.Sprintf(`"message":%q`, r.prefix(": ")+question)}
}

var sampling = client.Want{Method: "sampling/createMessage", Has: "What is the capital of France?"}

// own is the toolbox of test/internal/featuresfixture and test/servers/features.mjs.
var own = toolbox{
	"tool call": func(r run) []step { return []step{r.says("echo: hello", "echo", map[string]any{"text": "hello"})} },
	"progress": func(r run) []step {
		call := r.says("counted", "count", nil)
		call.Progress, call.progress = 3, []string{`"step 1"`, `"step 2"`, `"step 3"`}
		return []step{call}
	},
	"log message": func(r run) []step {
		call := after(r.says("logged", "log", nil), client.Want{Method: "notifications/message", Has: `"loud"`})
		call.not = &client.Want{Method: "notifications/message", Has: `"quiet"`} // this message is below the level
		return r.atLevel("info", call)
	},
	"cancellation": func(r run) []step {
		wait := r.call("wait", r.keyed())
		wait.Cancel, wait.gaveUp = 1, true
		within := r.timeout
		if within == 0 {
			within = 45_000
		}
		return []step{wait, r.says("cancelled", "cancelled", map[string]any{"key": r.key, "within": within})}
	},
	"elicitation form": func(r run) []step {
		return []step{after(r.says("Hello, Ann!", "ask_form", nil), r.asked("What is your name?"))}
	},
	"elicitation URL": func(r run) []step {
		ask := after(r.says("The page was: accept", "ask_url", r.keyed()), r.asked("Sign in."), askedURL)
		if r.client == client.Legacy {
			ask.also = hasElicitationID
		}
		if r.client == client.Legacy && r.era == rig.Legacy { // only here both ends support the completion notification
			ask.Await = append(ask.Await, pageLeft)
			ask.also = completedIDsWereAsked
		}
		return []step{ask}
	},
	"elicitation URL by error -32042": func(r run) []step {
		if r.era == rig.Modern {
			return nil // the revision does not have this error
		}
		enter := r.says("signed in", "sign_in", r.keyed())
		if r.client == client.Modern { // here neither: the gateway asks in the revision's way
			return []step{after(enter, r.asked("Sign in."), askedURL)}
		}
		refused := r.call("sign_in", r.keyed())
		refused.fault = -32042
		return []step{refused, after(r.says("finished", "finish_sign_in", r.keyed()), pageLeft), enter}
	},
	"sampling": func(r run) []step {
		return []step{after(r.says("The model says: Paris", "sample", nil), sampling)}
	},
	"sampling with tools": func(r run) []step {
		return []step{after(r.says("answered: The model says: 17 degrees in Oslo", "sample_tools", nil),
			client.Want{Method: "sampling/createMessage", Has: `"tools":[{`},
			client.Want{Method: "sampling/createMessage", Has: `"tool_result"`})}
	},
	"several rounds of asks": func(r run) []step {
		return []step{after(r.says("named Ann, blue, Paris", "rounds", nil), r.asked("What is your name?"), r.asked("Which color?"), sampling)}
	},
	"roots": func(r run) []step { return []step{r.says("Roots: file:///home/ann", "roots", nil)} },
	"subscribe and update": func(r run) []step {
		watched := map[string]any{"uri": r.uri("test://watched")}
		touch := after(r.says("touched", "touch", nil), client.Want{Method: "notifications/resources/updated", Has: fmt.Sprintf(`"uri":%q`, watched["uri"])})
		return []step{
			{Step: client.Step{Method: "resources/subscribe", Params: watched}},
			touch, touch, // the gateway may synthesize a first update
			{Step: client.Step{Method: "resources/read", Params: watched}, has: []string{`"text":"touched `}},
			{Step: client.Step{Method: "resources/unsubscribe", Params: watched}},
		}
	},
	"list change": func(r run) []step {
		name := map[string]any{"name": "grown-" + r.key}
		changes := []client.Want{
			{Method: "notifications/tools/list_changed"}, {Method: "notifications/prompts/list_changed"}, {Method: "notifications/resources/list_changed"},
		}
		public := fmt.Sprintf(`"name":%q`, r.name("grown-"+r.key))
		return []step{
			after(r.says("grown", "grow", name), changes...),
			lists("tools", public), lists("prompts", public), lists("resources", fmt.Sprintf(`"uri":%q`, r.uri("test://grown/grown-"+r.key))),
			r.says("I am grown-"+r.key, "grown-"+r.key, nil),
			after(r.says("shrunk", "shrink", name), changes...),
		}
	},
	"completion": func(r run) []step {
		return []step{
			r.complete(map[string]any{"type": "ref/prompt", "name": r.name("greet")}, "name", "An", `"values":["Ann","Anton"]`),
			r.complete(map[string]any{"type": "ref/resource", "uri": r.uri("test://thing/{id}")}, "id", "1", `"values":["17","18"]`),
		}
	},
	"resource template": func(r run) []step { return r.template("test://thing/{id}", "test://thing/42", `"text":"thing 42"`) },
	"prompt with embedded resource": func(r run) []step {
		return r.embedded("with_resource", nil, "test://embedded", `"text":"embedded text"`)
	},
}

// lists returns a step after a change: the client lists again, and once more after each notification of another change. The gateway notifies at once,
// and again after a slow refresh has found the change.
func lists(kind, has string) step {
	again := &client.Want{Method: "notifications/" + kind + "/list_changed", Has: has}
	return step{Step: client.Step{Method: kind + "/list", Until: again}, has: []string{has}}
}

func (r run) complete(ref map[string]any, argument, value, has string) step {
	return step{Step: client.Step{Method: "completion/complete", Params: map[string]any{
		"ref": ref, "argument": map[string]any{"name": argument, "value": value},
	}}, has: []string{has}}
}

// template returns steps that list a template and read a resource of it.
func (r run) template(native, resource, has string) []step {
	return []step{
		{Step: client.Step{Method: "resources/templates/list"}, has: []string{fmt.Sprintf(`"uriTemplate":%q`, r.uri(native))}},
		r.read(resource, has),
	}
}

func (r run) read(native, has string) step {
	uri := r.uri(native)
	return step{Step: client.Step{Method: "resources/read", Params: map[string]any{"uri": uri}}, has: []string{fmt.Sprintf(`"uri":%q`, uri), has}}
}

// embedded returns steps that get a prompt with an embedded resource and read the resource by its URI in the prompt.
func (r run) embedded(prompt string, arguments map[string]any, resource, has string) []step {
	params := map[string]any{"name": r.name(prompt)}
	if arguments != nil {
		params["arguments"] = arguments
	}
	return []step{
		{Step: client.Step{Method: "prompts/get", Params: params}, has: []string{`"type":"resource"`, fmt.Sprintf(`"uri":%q`, r.uri(resource))}},
		r.read(resource, has),
	}
}

var (
	askedURL = client.Want{Method: "elicitation/create", Has: `"url":"https://example.com/sign-in"`}
	pageLeft = client.Want{Method: "notifications/elicitation/complete", Has: `"elicitationId":"`}
)

// elicitationIDs returns the ids in the events of one method.
func elicitationIDs(o client.Outcome, method string) (ids []string) {
	for _, event := range o.Events {
		var params struct {
			ElicitationID string `json:"elicitationId"`
		}
		if event.Method == method && json.Unmarshal(event.Params, &params) == nil && params.ElicitationID != "" {
			ids = append(ids, params.ElicitationID)
		}
	}
	return ids
}

func hasElicitationID(o client.Outcome) error {
	if len(elicitationIDs(o, "elicitation/create")) != 1 {
		return fmt.Errorf("no elicitationId in %s", list(o.Events))
	}
	return nil
}

func completedIDsWereAsked(o client.Outcome) error {
	asked, left := elicitationIDs(o, "elicitation/create"), elicitationIDs(o, "notifications/elicitation/complete")
	if len(asked) != 1 || len(left) != 1 || asked[0] != left[0] {
		return fmt.Errorf("asked with ids %q, completed %q", asked, left)
	}
	return nil
}
