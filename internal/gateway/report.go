package gateway

import (
	"hash/maphash"
	"maps"
	"weak"

	"go.uber.org/zap"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/personal"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream/connector"
)

// maxLoggedFindings bounds how many findings of one upstream are remembered and logged: an
// upstream that produces ever new findings cannot fill the log or the memory.
const maxLoggedFindings = 4096

// findingSeed is the seed of digests of findings. Findings may be large, so the digests
// are kept in their place.
var findingSeed = maphash.MakeSeed()

// logFindings counts and logs each violation, clash and unusable item of a profile once,
// however many profiles have it. Clashes are left out until the table is settled or the
// upstreams have started: names are reserved for upstreams that have not listed anything yet,
// and such a clash may vanish.
func (g *Gateway) logFindings(profile string, t *catalog.Table, settled bool) {
	for _, f := range t.Findings() {
		logged, digest := g.control.loggedFindings[f.Upstream], maphash.Comparable(findingSeed, f)
		if logged[digest] || len(logged) >= maxLoggedFindings || f.Issue == catalog.Clash && !settled && !g.isStarted() {
			continue
		}
		if logged == nil {
			logged = make(map[uint64]bool)
			g.control.loggedFindings[f.Upstream] = logged
		}
		logged[digest] = true
		if f.Issue == catalog.Held {
			g.metrics.held.WithLabelValues(f.Upstream).Inc()
		}
		g.router.ReportFinding(profile, f)
	}
}

// logPrincipalFindings logs the findings in the tables of the principals that requested an update.
func (g *Gateway) logPrincipalFindings(u *personal.Update, settled bool) {
	for profile, table := range u.Requested() {
		g.logFindings("", table.Ordinary(), settled)
		g.logFindings(profile, table, settled)
	}
}

// logState logs a change of an upstream's state.
func logState(log *zap.Logger, before, now connector.Snapshot) {
	if before.State == now.State && before.Since.Equal(now.Since) {
		return
	}
	fields := []zap.Field{zap.String("upstream", now.Name), zap.Stringer("state", now.State)}
	if now.Up() {
		fields = append(fields,
			zap.Stringer("era", now.Era()), zap.String("revision", string(now.Revision)),
			zap.Int("tools", len(now.Catalog.Tools)), zap.Int("prompts", len(now.Catalog.Prompts)),
			zap.Int("resources", len(now.Catalog.Resources)), zap.Int("templates", len(now.Catalog.Templates)))
	}
	if now.Reason != "" {
		fields = append(fields, zap.String("reason", now.Reason))
	}
	switch now.State {
	case connector.Ready:
		log.Info("upstream", fields...)
	case connector.Down, connector.Idle, connector.Connecting:
		log.Debug("upstream", fields...) // the connector has logged the reason
	default:
		log.Warn("upstream", fields...)
	}
}

// logStarted logs the result of the upstreams' first attempts, in the order of the
// configuration.
func (g *Gateway) logStarted(gen *generation, gathered snapshots) {
	ready, idle, failed, starting := []string{}, []string{}, []string{}, []string{}
	for _, e := range gen.entries {
		switch s := gathered[e.conn]; {
		case s.Up():
			ready = append(ready, e.name)
		case s.Available():
			idle = append(idle, e.name)
		case s.Settled:
			failed = append(failed, e.name)
		default:
			starting = append(starting, e.name)
		}
	}
	g.log.Info("upstreams have started", zap.Strings("ready", ready), zap.Strings("idle", idle), zap.Strings("failed", failed), zap.Strings("starting", starting))
}

// listed returns the names of the upstreams whose items are all known.
func (gen *generation) listed(gathered snapshots) map[string]bool {
	out := make(map[string]bool)
	for _, e := range gen.entries {
		state := gathered[e.conn].State
		if e.active.Load() == e.conn && (state == connector.Ready || state == connector.Idle) {
			out[e.name] = true
		}
	}
	return out
}

// unmatchedGlobs are globs of a generation, and the table in which they match nothing.
type unmatchedGlobs struct {
	gen    *generation
	routes weak.Pointer[router.Routes]
	globs  []catalog.UnusedGlob
}

// unmatchedRestrictions returns the first globs of rules that deny or confirm, and of deny lists, that match nothing
// in the current table. It judges them once for each table.
func (g *Gateway) unmatchedRestrictions() []catalog.UnusedGlob {
	gen := g.generation.Load()
	if !isClosed(gen.settled) {
		return nil
	}
	routes := g.router.Routes()
	now := &unmatchedGlobs{gen: gen, routes: weak.Make(routes)}
	if last := g.unmatched.Load(); last != nil && last.gen == gen && last.routes == now.routes {
		return last.globs
	}
	listed := gen.listed(snapshotsOf(gen.connections()))
	for _, glob := range gen.UnmatchedGlobs(routes.Table.Ordinary(), func(upstream string) bool { return listed[upstream] }) {
		if glob.Restricts() && len(now.globs) < maxLoggedGlobs {
			now.globs = append(now.globs, glob)
		}
	}
	g.unmatched.Store(now)
	return now.globs
}

// maxLoggedGlobs bounds how many globs a log line contains.
const maxLoggedGlobs = 20

// logUnmatchedGlobs logs which globs of a generation's policy and profiles match nothing, each once. It
// judges the globs that only mean upstreams that have listed their items, and judges again when another
// upstream has: one that is down must not hide a misspelled glob of another.
func (g *Gateway) logUnmatchedGlobs(gen *generation, t *catalog.Table, gathered snapshots) {
	listed, more := gen.listed(gathered), false
	for name := range listed {
		more = more || !gen.globsListed[name]
	}
	if !more {
		return
	}
	if gen.globsListed == nil {
		gen.globsListed, gen.globsLogged = make(map[string]bool), make(map[string]bool)
	}
	maps.Copy(gen.globsListed, listed)
	var ofPolicy, ofProfiles []string
	for _, glob := range gen.UnmatchedGlobs(t, func(upstream string) bool { return listed[upstream] }) {
		place := glob.Path()
		switch {
		case gen.globsLogged[place]:
			continue
		case glob.Profile != "":
			ofProfiles = append(ofProfiles, glob.String())
		default:
			ofPolicy = append(ofPolicy, glob.String())
		}
		gen.globsLogged[place] = true
	}
	if n := len(ofPolicy); n > 0 {
		g.log.Warn("globs of the policy match nothing", zap.Int("count", n), zap.Strings("globs", ofPolicy[:min(n, maxLoggedGlobs)]))
	}
	if n := len(ofProfiles); n > 0 {
		g.log.Warn("globs of profiles match nothing", zap.Int("count", n), zap.Strings("globs", ofProfiles[:min(n, maxLoggedGlobs)]))
	}
}
