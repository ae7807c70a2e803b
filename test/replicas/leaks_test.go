package replicas

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// stored is what the store has of one kind.
type stored struct {
	keys, bytes int
	longest     time.Duration // until one ends
}

// inStore returns what the store has by kinds. It reports keys without an end.
func inStore(t *testing.T, addr string) map[string]stored {
	t.Helper()
	number := func(args ...string) int {
		n, err := strconv.Atoi(strings.TrimSpace(rig.RedisCLI(t, addr, args...)))
		if err != nil && len(args) > 1 && args[0] == "memory" {
			return 0 // it has just ended
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	out := map[string]stored{}
	for _, key := range keysOf(t, addr, "") {
		left := number("pttl", key)
		if left == -1 {
			t.Errorf("%s has no end", key)
		}
		kind := strings.Split(key, ":")[2]
		s := out[kind]
		s.keys, s.bytes, s.longest = s.keys+1, s.bytes+number("memory", "usage", key), max(s.longest, time.Duration(left)*time.Millisecond)
		out[kind] = s
	}
	return out
}

func show(all map[string]stored) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%s: %d keys, %d bytes, for at most %v", kind, all[kind].keys, all[kind].bytes, all[kind].longest.Round(time.Second)))
	}
	return strings.Join(out, "; ")
}

// What clients have left in the store ends after their sessions: only what replicas say of themselves remains.
func TestNothingIsLeftInTheStore(t *testing.T) {
	addr, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(addr), rig.Config{
		"limits": rig.Config{"session_idle": "2s"}, "bridge": rig.Config{"park_ttl": "2s", "state_ttl": "2s"},
		"policy": rig.Config{"default": "allow", "rules": []rig.Config{
			{"name": "counted", "effect": "allow", "what": rig.Config{"tools": []string{"*"}}, "limit": rig.Config{"rate": "100000/s", "concurrent": 1000}},
			{"name": "ask-first", "effect": "confirm", "what": rig.Config{"tools": []string{"*__confirmed"}}},
		}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*within)
	defer cancel()
	l := &load{t: t, url: r.URL, servers: servers, over: make(chan struct{}), strict: true}
	clients, end := context.WithCancel(ctx)
	l.start(clients)
	modern := at(t, r.Gateways[0].URL, raw.Modern)
	elsewhere := at(t, r.Gateways[1].URL, raw.Modern)
	for range 20 {
		for _, tool := range []string{"legacy__ask", "modern__confirmed"} {
			if answer := retry(ctx, t, elsewhere, park(ctx, t, modern, tool)); answer.Response.Fault() != nil {
				t.Errorf("%s: %s", tool, answer.Response.Text)
			}
		}
		park(ctx, t, modern, "legacy__ask") // nobody comes back
	}
	polltest.Until(t, "calls were answered", func() bool { return l.answered.Load() > 500 })
	l.end(end)
	t.Logf("after %d calls: %s", l.answered.Load(), show(inStore(t, addr)))
	// What replicas say of themselves remains; the rest ends at the latest after this time, which docs/design/replicas.md lists.
	longest := map[string]time.Duration{
		"inbox": time.Minute, "notes": time.Minute, "message": time.Minute, "open-sessions": 10 * time.Minute, "replica": 5 * time.Second, "replicas": time.Hour,
		"events": 5 * time.Minute, "token": 10 * time.Minute, "token-epoch": 400 * 24 * time.Hour, "probe": time.Second,
	}
	var last map[string]stored
	polltest.UntilNil(t, "sessions and limits end", func() error {
		last = inStore(t, addr)
		for kind, s := range last {
			if s.longest > longest[kind] {
				return fmt.Errorf("the store has %s", show(last))
			}
		}
		return nil
	})
	t.Logf("afterwards: %s", show(last))
	for kind, most := range map[string]int{"inbox": replicas, "notes": 1, "open-sessions": replicas, "replica": replicas, "replicas": 1, "token-epoch": 1} {
		if last[kind].keys > most {
			t.Errorf("%d keys of kind %s, want at most %d", last[kind].keys, kind, most)
		}
	}
}
