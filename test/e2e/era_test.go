package e2e

import (
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// TestConfirmationByServerOfBothEras calls a destructive tool of a stdio server that supports both eras but lists the modern one only. The user is asked
// with and without the gateway, and a refusal prevents the execution.
func TestConfirmationByServerOfBothEras(t *testing.T) {
	t.Parallel()
	command := rig.Node(t, "servers/confirm.mjs")
	config := rig.Config{"upstreams": rig.Upstreams{"db": {"command": command[0], "args": command[1:], "prefix": ""}}}
	targets := map[string]client.Target{
		"directly":         {Command: command},
		"over HTTP":        {URL: rig.StartGateway(t, config).URL},
		"by gateway stdio": {Command: rig.StdioCommand(t, config)},
	}
	users := map[string]struct {
		client client.Client
		want   string
	}{
		"says yes": {client.Answering(client.V1()), "dropped: Ann confirmed"},
		"says no":  {client.Declining(client.V1()), "kept: decline"},
	}
	for where, target := range targets {
		for what, user := range users {
			t.Run(where+", and the user "+what, func(t *testing.T) {
				steps := []client.Step{{Method: "tools/call", Params: map[string]any{"name": "drop_database", "arguments": map[string]any{}}}}
				outcome := user.client.Run(t, target, steps).Steps[0]
				result := client.Decode[struct{ Content []struct{ Text string } }](t, outcome)
				if len(result.Content) != 1 || result.Content[0].Text != user.want {
					t.Errorf("result %s, want %q", outcome.Result, user.want)
				}
				asked := 0
				for _, event := range outcome.Events {
					if event.Method == "elicitation/create" && strings.Contains(string(event.Params), "Who drops the database?") {
						asked++
					}
				}
				if asked != 1 {
					t.Errorf("the user was asked %d times, want once: %v", asked, outcome.Events)
				}
			})
		}
	}
}
