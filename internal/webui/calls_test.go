package webui

import (
	"testing"
	"time"

	"mcpgateway/internal/inspect"
)

// The page shows the last calls, those that the filters select.
func TestCalls(t *testing.T) {
	log := &inspect.CallLog{}
	c, _ := newTestConsole(t, Options{Calls: log})
	contains(t, get(t, c, "/ui/calls", 200), "No call has ended since the recording began.")
	log.Add(inspect.Call{
		At: time.Now(), Duration: 1500 * time.Millisecond, Request: "r1", Method: "tools/call", Item: "files__read", Upstream: "files", Rule: "readers", Outcome: "ok",
		Principal: "ann", Client: hostile, Stages: []inspect.StageTime{{Stage: "upstream", Spent: time.Second}}, Trace: "abc123",
	})
	log.Add(inspect.Call{At: time.Now(), Request: "r2", Method: "tools/call", Item: hostile, Upstream: "web", Outcome: "error", Reason: hostile, Principal: hostile, Profile: hostile, Remote: hostile})
	log.Add(inspect.Call{At: time.Now(), Request: "r3", Method: "tools/list", Outcome: "ok", Principal: "bob"})
	page := get(t, c, "/ui/calls", 200)
	contains(t, page, "files__read", "1.5 s", "<dt>upstream</dt><dd>1 s</dd>", "readers", "r1", "r2", "r3", "abc123", "&lt;script&gt;", `name=files__read`)
	for query, want := range map[string]struct{ has, lacks string }{
		"outcome=failed": {"r2<", "r1<"},
		"outcome=ok":     {"r1<", "r2<"},
		"upstream=files": {"r1<", "r3<"},
		"q=LIST+bob":     {"r3<", "r1<"},
		"q=abc123":       {"r1<", "r2<"},
		"q=nothing+such": {"No call matches", "r1<"},
	} {
		page := get(t, c, "/ui/calls?"+query, 200)
		contains(t, page, want.has)
		lacks(t, page, want.lacks)
	}
}
