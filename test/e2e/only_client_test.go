package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"

	"github.com/google/go-cmp/cmp"
)

// TestOnlyClient lets a host start the gateway in front of a server that offers tools by its client's capabilities and asks for its roots. The server
// sees the same client as without the gateway, and runs as one process, whatever the value of `session` is.
func TestOnlyClient(t *testing.T) {
	t.Parallel()
	call := func(name string, arguments map[string]any) client.Step {
		return client.Step{Method: "tools/call", Params: map[string]any{"name": name, "arguments": arguments}}
	}
	steps := []client.Step{{Method: "tools/list"}, call("get-roots-list", map[string]any{}), call("trigger-elicitation-request", map[string]any{})}
	type seen struct {
		Tools     []string
		Roots     bool
		Elicited  bool
		Processes string
	}
	run := func(t *testing.T, c client.Client, session string) seen {
		starts := filepath.Join(t.TempDir(), "starts")
		everything := append([]string{"sh", "-c", `echo started >>"$0"; exec "$@"`, starts}, rig.EverythingCommand(t)...)
		target := client.Target{Command: everything}
		if session != "" {
			target.Command = rig.StdioCommand(t, rig.Config{"upstreams": rig.Upstreams{
				"everything": {"command": everything[0], "args": everything[1:], "prefix": "", "session": session},
			}})
		}
		outcomes := c.Run(t, target, steps).Steps
		var got seen
		for _, item := range client.Decode[client.List](t, outcomes[0]).Items {
			got.Tools = append(got.Tools, fmt.Sprint(item["name"]))
		}
		slices.Sort(got.Tools)
		got.Roots = strings.Contains(string(outcomes[1].Result), "file:///home/ann")
		got.Elicited = strings.Contains(string(outcomes[2].Result), "Ann") || strings.Contains(string(outcomes[2].Result), "User")
		text, err := os.ReadFile(starts)
		if err != nil {
			t.Fatal(err)
		}
		got.Processes = string(text)
		return got
	}
	for name, c := range map[string]client.Client{"that can be asked": client.Answering(client.V1()), "that cannot": client.V1()} {
		t.Run("a client "+name, func(t *testing.T) {
			want := run(t, c, "")
			if can := name == "that can be asked"; want.Roots != can || want.Elicited != can {
				t.Errorf("without the gateway: %+v", want)
			}
			for _, session := range []string{"shared", "per-client", "per-principal"} {
				t.Run(session, func(t *testing.T) {
					if diff := cmp.Diff(want, run(t, c, session)); diff != "" {
						t.Errorf("without and with the gateway (-want +got):\n%s", diff)
					}
				})
			}
		})
	}
}
