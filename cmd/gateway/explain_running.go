package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mcpgateway/internal/config"
	"mcpgateway/internal/inspect"
)

// inForce is where the gateway that runs with the file may answer otherwise than the file says. It is empty without such a
// gateway.
type inForce struct {
	name         string                            // of the gateway
	breakers     map[string]inspect.UpstreamStatus // the upstreams with a circuit breaker that is not closed
	needsRestart []string                          // the keys about authentication of which it has the values of its start
}

// askInForce asks the gateways that this user runs with the file.
func askInForce(ctx context.Context, cfg *config.Config, file string) inForce {
	asked := reachOptions{runOptions: runOptions{file: file}, timeout: maxAskUser}
	out := inForce{breakers: make(map[string]inspect.UpstreamStatus)}
	for _, r := range asked.ofFile(ctx, cfg) {
		for _, u := range r.status.Upstreams {
			if _, known := out.breakers[u.Name]; u.BreakerSince != nil && !known {
				out.breakers[u.Name] = u
			}
		}
		if keys := authNeedsRestart(r.status); len(keys) > 0 && out.needsRestart == nil {
			out.name, out.needsRestart = r.name(), keys
		}
	}
	return out
}

// authNeedsRestart returns the keys about authentication that a gateway has read and not applied.
func authNeedsRestart(s *inspect.Status) []string {
	last := s.Reload
	if last != nil && last.Status == inspect.ReloadRefused {
		last = s.Change
	}
	if last == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(last.NeedsRestart), func(key string) bool {
		return !strings.HasPrefix(key, "auth.") && key != "public_url" // the audience of tokens
	})
}

// restartWarning is a sentence about keys that need a restart, "" if none does.
func (f *inForce) restartWarning() string {
	if len(f.needsRestart) == 0 {
		return ""
	}
	return fmt.Sprintf("%s still has the values of its start for %s, and may judge credentials otherwise until it is restarted", f.name, strings.Join(f.needsRestart, ", "))
}
