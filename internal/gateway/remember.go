package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"mcpgateway/internal/statedir"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// rememberedSnapshot returns what was known of the upstream in an earlier run, nil if
// nothing was, or not all lists.
func (c *connection) rememberedSnapshot() *connector.Snapshot {
	r := c.remembered()
	if r == nil || r.Revision == "" || r.Partial {
		return nil
	}
	s := &connector.Snapshot{
		Revision: r.Revision, Info: wire.Raw(r.Server), Capabilities: wire.Raw(r.Capabilities), Instructions: r.Instructions,
		Catalog: connector.Catalog{
			Tools: statedir.ToRaw(r.Tools), Resources: statedir.ToRaw(r.Resources),
			Templates: statedir.ToRaw(r.Templates), Prompts: statedir.ToRaw(r.Prompts),
		},
	}
	c.lastRemembered = s
	return s
}

// rememberCatalogs writes what is known of upstreams with a conversation to the state folder
// if it has changed.
func (g *Gateway) rememberCatalogs(gathered snapshots) {
	for conn, s := range gathered {
		known := s.State == connector.Ready || s.State == connector.Degraded || s.State == connector.Idle && s.Reason == ""
		if conn.key == "" || !known || conn.lastRemembered != nil && equalKnowledge(conn.lastRemembered, &s) {
			continue
		}
		c, ok := conn.toRemember(s)
		if !ok {
			continue
		}
		conn.lastRemembered = &s
		g.state.RememberCatalog(conn.key, c)
	}
}

// toRemember returns what to remember of an upstream. A list that cannot be gathered, and
// never was in this run, is remembered from an earlier run. It returns false if nothing is
// known of any list: the upstream would look like one that offers nothing.
func (c *connection) toRemember(s connector.Snapshot) (*statedir.Catalog, bool) {
	out := &statedir.Catalog{
		Revision: s.Revision, Instructions: s.Instructions, Server: json.RawMessage(s.Info), Capabilities: json.RawMessage(s.Capabilities),
	}
	earlier, failing, some := c.remembered(), s.State == connector.Degraded, false
	for _, list := range []struct {
		items  []wire.Raw
		failed connector.FailedList
		of     func(*statedir.Catalog) *[]json.RawMessage
	}{
		{s.Catalog.Tools, s.Failed.Tools, func(c *statedir.Catalog) *[]json.RawMessage { return &c.Tools }},
		{s.Catalog.Resources, s.Failed.Resources, func(c *statedir.Catalog) *[]json.RawMessage { return &c.Resources }},
		{s.Catalog.Templates, s.Failed.Templates, func(c *statedir.Catalog) *[]json.RawMessage { return &c.Templates }},
		{s.Catalog.Prompts, s.Failed.Prompts, func(c *statedir.Catalog) *[]json.RawMessage { return &c.Prompts }},
	} {
		items := list.of(out)
		*items = statedir.FromRaw(list.items)
		switch {
		case len(*items) > 0 || list.failed.Reason == "":
		case earlier != nil && !earlier.Partial:
			*items = *list.of(earlier)
		default:
			out.Partial = true
		}
		some = some || len(*items) > 0
	}
	return out, some || !failing
}

// equalKnowledge reports whether two snapshots would be remembered alike.
func equalKnowledge(a, b *connector.Snapshot) bool {
	return a.Revision == b.Revision && a.Instructions == b.Instructions && bytes.Equal(a.Info, b.Info) &&
		bytes.Equal(a.Capabilities, b.Capabilities) && equalCatalogs(a.Catalog, b.Catalog)
}

func equalCatalogs(a, b connector.Catalog) bool {
	equal := func(x, y []wire.Raw) bool {
		return slices.EqualFunc(x, y, func(p, q wire.Raw) bool { return string(p) == string(q) })
	}
	return equal(a.Tools, b.Tools) && equal(a.Resources, b.Resources) && equal(a.Templates, b.Templates) && equal(a.Prompts, b.Prompts)
}

// flush has the control loop remember what upstreams offer now. The verbs that run a gateway
// in their own process may be done before the control loop has noticed.
func (g *Gateway) flush(ctx context.Context) {
	done := make(chan struct{})
	select {
	case g.flushes <- done:
	case <-g.controlEnded:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-g.controlEnded:
	case <-ctx.Done():
	}
}
