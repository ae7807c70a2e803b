package gateway

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/watch"
)

// Changes are the changes of a reload.
type Changes struct {
	// Added, Removed and Changed are names of upstreams in the order of the
	// configuration, for Removed of the one before.
	Added, Removed, Changed []string
	// Restart are the keys whose new values take effect only after a restart.
	Restart []string
	// Kept are upstreams that need variables that are not set, or files that cannot be used. They keep their connection; other keys apply.
	Kept []config.KeptUpstream
	// Other says that something else has changed, such as a rule of policy.
	Other bool
	// Keys are the keys outside of upstreams that have changed.
	Keys []string
	// Rules are the rules of policy and profiles that have changed.
	Rules config.RuleChanges
	// Causes say what requested the reload, see [Cause].
	Causes []Cause

	// Warnings are those of the configuration.
	Warnings []config.Warning
	// Noticed is the reload that has applied the same files before, if this one was asked for and found them in
	// force, and nobody has asked for one since.
	Noticed *inspect.LastReload
}

// Cause is what requested a reload.
type Cause string

// The causes of reloads. [Gateway.Reload] has none.
const (
	CauseFile   Cause = "file"   // a file of the configuration has changed
	CauseSIGHUP Cause = "sighup" // the process got the signal
	CauseAPI    Cause = "api"    // POST /-/reload, as gateway reload sends it
)

// Any reports whether the gateway runs with a configuration that differs from the one
// before.
func (c Changes) Any() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) > 0 || c.Other }

// errNotRunning is the error of a reload before or after Run.
var errNotRunning = errors.New("the gateway does not run")

// Reload replaces the configuration as a whole. If the new one cannot be used, nothing
// changes, and the error says why; it is config.Errors if the configuration is invalid.
// The gateway keeps cfg.
//
// An upstream whose connection is configured as before keeps its connection and the calls
// on it. A new upstream is started. An upstream whose connection has changed is served by
// the old connection until the first attempt of the new one has ended, or startup_wait has
// passed. A connection that is no longer needed is closed when the calls that may use it
// have ended, or drain_timeout has passed. An upstream that needs variables that are
// not set, or files that cannot be used, keeps its connection, and is listed in Changes.Kept; files of TLS that
// its old connection could not use either are no reason. Clients are notified of changed lists once, when
// all of that is done. Keys that cannot change while the gateway runs keep their values,
// and are listed in Changes.Restart.
//
// Reload returns when no new connection is awaited, when another reload has followed, or
// when ctx ends; the configuration is in force then. It may be called concurrently while
// Run runs.
func (g *Gateway) Reload(ctx context.Context, cfg *config.Config) (Changes, error) {
	r := newReloadRequest(cfg)
	select {
	case g.reloads <- r:
	case <-g.controlEnded:
		return Changes{}, errNotRunning
	case <-ctx.Done():
		return Changes{}, ctx.Err()
	}
	<-r.finished
	return g.await(ctx, r)
}

// await waits until the connections of an applied reload have settled.
func (g *Gateway) await(ctx context.Context, r *reloadRequest) (Changes, error) {
	if r.err != nil {
		return r.changes, r.err
	}
	select {
	case <-r.settled:
	case <-g.controlEnded:
	case <-ctx.Done():
	}
	return r.changes, nil
}

// reloadRequest asks the control loop to apply a configuration.
type reloadRequest struct {
	cfg      *config.Config
	causes   []Cause       // each once
	read     watch.Set     // the files that cfg is from
	finished chan struct{} // closed when the fields below are set

	changes Changes
	settled <-chan struct{}
	err     error
}

func newReloadRequest(cfg *config.Config) *reloadRequest {
	return &reloadRequest{cfg: cfg, finished: make(chan struct{})}
}

func (r *reloadRequest) finish(c Changes, settled <-chan struct{}, err error) {
	r.changes, r.settled, r.err = c, settled, err
	close(r.finished)
}

// reload applies a configuration, logs the result and finishes the request. The control
// loop calls it, and builds the table afterwards.
func (g *Gateway) reload(life context.Context, r *reloadRequest) {
	changes, settled, err := g.applyConfig(life, r.cfg, &r.read)
	changes.Causes = r.causes
	if err != nil {
		g.logRefused(changes, err)
	} else {
		changes.Warnings = r.cfg.Warnings
		before := g.lastReload.Load()
		g.logReloaded(changes)
		changes.Noticed = g.control.notice(changes, r.read, before, g.lastReload.Load())
	}
	r.finish(changes, settled, err)
}

// noticedChange is a change of files that a reload has applied without being asked.
type noticedChange struct {
	reload *inspect.LastReload // nil without one, or when it was told
	read   watch.Set
}

// notice remembers a reload that was applied, and returns the one that has applied the same files, if a program
// asks and was not told of it. It returns nil if there was another reload in between, last: the file was refused and put back, and the
// request is about that.
func (c *controlState) notice(changes Changes, read watch.Set, last, now *inspect.LastReload) *inspect.LastReload {
	asked := slices.Contains(changes.Causes, CauseAPI)
	noticed := c.noticed
	switch {
	case asked || len(changes.Causes) == 0:
		c.noticed = noticedChange{}
	case changes.Any():
		c.noticed = noticedChange{now, read}
	}
	if asked && !changes.Any() && noticed.reload == last && noticed.read.Equal(read) {
		return noticed.reload
	}
	return nil
}

// applyConfig replaces the generation. The returned channel is closed when the new one has
// settled. TLS files that cannot be used are added to read.
func (g *Gateway) applyConfig(life context.Context, cfg *config.Config, read *watch.Set) (Changes, <-chan struct{}, error) {
	if g.demo {
		return Changes{}, nil, errors.New("the gateway serves the built-in demo, which has no configuration; restart it with -c FILE to serve yours")
	}
	if g.draining.Load() {
		return Changes{}, nil, errNotRunning
	}
	before := g.generation.Load()
	next := *cfg
	next.Upstreams = slices.Clone(cfg.Upstreams)
	for i, u := range next.Upstreams {
		next.Upstreams[i].Unset = slices.Concat(u.Unset, before.newUnusableTLS(u, read))
	}
	changes := Changes{Restart: next.Retain(g.cfg), Kept: next.RetainUnset(before.cfg)}
	g.secrets.Learn(next.Secrets(os.LookupEnv))
	gen, err := g.newGeneration(&next, before)
	if err != nil {
		return Changes{}, nil, err
	}
	if err := g.setClients(before.cfg, &next); err != nil {
		return Changes{}, nil, err
	}
	changes.compare(before.cfg, &next)
	g.generation.Store(gen)
	for _, e := range gen.entries {
		e.conn.sessions.SetLogLevel(g.currentLogLevel()) // it may have changed since newConnection
		e.conn.sessions.SetLifetime(e.lifetime)
		e.conn.health.Set(e.health)
		if e.conn.cancel == nil {
			g.startConnection(life, e.conn)
		} else {
			e.conn.sessions.Retry() // what has failed may succeed now: an operator who asks for a reload may have repaired it
		}
	}
	g.front.Set(g.settingsOf(&next))
	g.limitResults(gen)
	g.setAdminGuard(&next)
	if !isClosed(before.settled) {
		close(before.settled)
	}
	return changes, gen.settled, nil
}

// compare sets the changes between two configurations.
func (c *Changes) compare(before, now *config.Config) {
	hashes := enabledHashes(before)
	for _, u := range now.Upstreams {
		hash, found := hashes[u.Name]
		switch {
		case u.Disabled:
			continue
		case !found:
			c.Added = append(c.Added, u.Name)
		case hash != u.Hash():
			c.Changed = append(c.Changed, u.Name)
		}
		delete(hashes, u.Name)
	}
	for _, u := range before.Upstreams {
		if _, removed := hashes[u.Name]; removed {
			c.Removed = append(c.Removed, u.Name)
		}
	}
	c.Keys, c.Rules = now.ChangedKeys(before), now.ChangedRules(before)
	c.Other = len(c.Keys) > 0
}

// enabledHashes returns the digests of the upstreams that are not disabled, by name.
func enabledHashes(c *config.Config) map[string]string {
	out := make(map[string]string, len(c.Upstreams))
	for _, u := range c.Upstreams {
		if !u.Disabled {
			out[u.Name] = u.Hash()
		}
	}
	return out
}

// retireConnections closes the connections that are no longer in use, after the calls that
// may use them have ended.
func (g *Gateway) retireConnections(life context.Context, inUse map[*connection]*upstreamEntry) {
	var retired []*connection
	for c := range g.control.inUse {
		if inUse[c] == nil {
			retired = append(retired, c)
		}
	}
	g.control.inUse = inUse
	if len(retired) == 0 {
		return
	}
	draining := slices.DeleteFunc(g.control.drainingEpochs, func(e *epoch) bool { return isClosed(e.over) })
	g.control.drainingEpochs = append(draining, g.epochs.advance())
	awaited, timeout := slices.Clone(g.control.drainingEpochs), g.generation.Load().cfg.DrainTimeout
	g.group.Go(func() error {
		if !waitOver(life, awaited, timeout) {
			calls := 0 // an epoch has calls of other upstreams too
			for _, c := range retired {
				calls += c.sessions.Running()
			}
			if calls > 0 {
				g.log.Warn("calls to replaced or removed upstreams were still running after drain_timeout and are ended",
					zap.Duration("timeout", timeout), zap.Int("calls", calls))
			}
		}
		for _, c := range retired {
			c.cancel()
		}
		for _, c := range retired {
			<-c.ended
		}
		return nil
	})
}

// waitOver waits until the calls of all epochs have ended or life ends. It returns false
// if timeout passes before.
func waitOver(life context.Context, epochs []*epoch, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, e := range epochs {
		select {
		case <-e.over:
		case <-life.Done():
			return true
		case <-timer.C:
			return false
		}
	}
	return true
}

// settingsOf translates the settings of the front end that can change.
func (g *Gateway) settingsOf(c *config.Config) frontend.Settings {
	remote := !origin.IsLoopbackHost(g.cfg.Listen)
	return frontend.Settings{
		CompressLists:   c.Compression != config.CompressOff,
		CompressResults: c.Compression == config.CompressAlways || c.Compression == config.CompressAuto && remote,
		AllowedOrigins:  c.AllowedOrigins, AllowedHosts: c.AllowedHosts, ProfileHosts: g.profileHosts(c), Eras: erasOf(c), PublicURL: c.PublicURL, ParkTTL: c.Bridge.ParkTTL,
		// Without authentication, only Host tells requests of a page that rebound its name.
		CheckHost: c.Auth.Has(config.AuthNone),
	}
}

// setAdminGuard sets which Host and Origin values the admin address accepts. Probes and
// Prometheus address a pod by its IP address, so those are accepted.
func (g *Gateway) setAdminGuard(cfg *config.Config) {
	g.adminGuard.Store(origin.New(origin.Options{
		Loopback: origin.IsLoopbackHost(g.cfg.Admin.Listen), IPHosts: true, Hosts: cfg.AllowedHosts,
	}))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
