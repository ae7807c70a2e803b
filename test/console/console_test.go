package console

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

var screenshots = flag.String("screenshots", "", "absolute path of the folder for screenshots; default: a temporary one")

const token = "token-of-the-console-test"

// A browser sees every page without an error, an overflow or a barrier, nothing of a hostile server happens in it, and other origins
// read nothing.
func TestConsoleInBrowser(t *testing.T) {
	folder := *screenshots
	if folder == "" {
		folder = t.TempDir()
	}
	config := func(more rig.Config) rig.Config {
		c := rig.Config{
			"policy": rig.Config{"default": "allow", "rules": []rig.Config{{"name": "no-fails", "effect": "deny", "what": rig.Config{"tools": []string{"*__nothing"}}}}},
			"upstreams": rig.Upstreams{
				"everything": {"command": rig.EverythingCommand(t)[0], "args": rig.EverythingCommand(t)[1:]},
				"hostile":    {"command": rig.Node(t, "servers/hostile.mjs")[0], "args": rig.Node(t, "servers/hostile.mjs")[1:]},
				"broken":     {"command": "/bin/false"},
			},
		}
		maps.Copy(c, more)
		return c
	}
	open := rig.StartGateway(t, config(nil))
	text, err := json.Marshal(config(rig.Config{"admin": rig.Config{"token": token}, "state_dir": t.TempDir()}))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := rig.StartGatewayOn(t, netns.Addr(), netns.Addr(), file)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, errs, err := process.Run(ctx, t, "", process.Options{
		Args: rig.Node(t, "console/browser.mjs", open.Admin, open.URL, closed.Admin, token, folder),
	})
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}
