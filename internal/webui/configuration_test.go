package webui

import (
	"testing"
	"time"

	"mcpgateway/internal/inspect"
)

// The page has the keys that are set, with search, and the defaults if they are wanted.
func TestConfiguration(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	page := get(t, c, "/ui/configuration", 200)
	contains(t, page, "upstreams.files", "gateway.yaml:1:2: &lt;script&gt;", "has not been reloaded")
	lacks(t, page, "<code>listen</code>")
	contains(t, get(t, c, "/ui/configuration?all=1&q=LISTEN", 200), "<code>listen</code>", "127.0.0.1:1")
	contains(t, get(t, c, "/ui/configuration?q=nothing", 200), "No key matches.")
}

// A refused reload is shown with its errors, beside the last one that changed something.
func TestReloads(t *testing.T) {
	at := time.Now()
	status := &inspect.Status{
		Reload: &inspect.LastReload{At: at, ReloadReport: inspect.ReloadReport{Status: "refused", Errors: []inspect.ReloadError{{File: "gateway.yaml", Line: 7, Message: hostile}}}},
		Change: &inspect.LastReload{At: at.Add(-time.Hour), ReloadReport: inspect.ReloadReport{Status: "reloaded", Added: []string{"web"}, Keys: []string{"policy.rules"}, RulesRemoved: []string{"no-writes"}, NeedsRestart: []string{"limits"}}},
	}
	c, _ := newTestConsole(t, Options{Status: func() (*inspect.Status, error) { return status, nil }})
	contains(t, get(t, c, "/ui/configuration", 200), "refused", "gateway.yaml:7: &lt;script&gt;", "Upstreams added", "<code>policy.rules</code>", "Rules removed", "no-writes", "limits", "Last change")
}
