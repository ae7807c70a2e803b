package gateway

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/origin"
)

// Changes is what a reload has changed.
type Changes struct {
	// Upstreams, in file order, those that were removed in that of the file before.
	Added, Removed, Changed []string
	// Restart are the keys that differ from what the gateway runs with and count
	// from its next start on.
	Restart []string
	// Other says that something else has changed, such as a rule of policy.
	Other bool
}

// Any reports whether the gateway runs with anything else than before.
func (c Changes) Any() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) > 0 || c.Other }

// live are the keys that can change while the gateway runs; those below them are
// meant, too.
var reloadable = []string{
	"allowed_origins", "allowed_hosts", "drain_timeout", "namespace", "policy", "asks", "auth.api_keys",
	"bridge.park_ttl", "bridge.ask_timeout", "bridge.state_ttl",
}

// Live tells whether a reload takes in a change of a key, given by its path as
// config.Key has it. Of any other the change counts from the next start on.
func Reloadable(key string) bool {
	return key == "upstreams" || strings.HasPrefix(key, "upstreams.") || slices.ContainsFunc(reloadable, func(l string) bool {
		return key == l || strings.HasPrefix(key, l+".") || strings.HasPrefix(key, l+"[]")
	})
}

// errNotRunning is the error of a reload before Run and after.
var errNotRunning = errors.New("the gateway does not run")

// Reload puts another configuration in place of the one that the gateway runs
// with, at once and as a whole. Where it cannot be used, nothing changes, and the
// error, config.Errors for what is wrong with the configuration, says why. The
// gateway keeps what it is given.
//
// Upstreams whose connection is configured as before keep it with all that goes on
// there, whatever else has changed. For the others: one that is new is started; one
// whose connection has changed serves by the old connection until the first attempt
// to open the new one has ended, or startup_wait has passed; connections that are
// not needed any more are closed when the calls that may use them have ended, or
// drain_timeout has passed. Clients hear of changed lists once, when all of that is
// there. Keys that cannot change while a gateway runs stay as they are, and are
// named.
//
// Reload returns when nothing is waited for any more, when another reload has
// followed, or when ctx ends; the configuration is in place then. It may be called
// by many goroutines at once, between the beginning of Run and its end.
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

// await waits for what a reload that was taken waits for.
func (g *Gateway) await(ctx context.Context, r *reloadRequest) (Changes, error) {
	if r.err != nil {
		return Changes{}, r.err
	}
	select {
	case <-r.settled:
	case <-g.controlEnded:
	case <-ctx.Done():
	}
	return r.changes, nil
}

// reload is one configuration on its way to the control loop.
type reloadRequest struct {
	cfg      *config.Config
	finished chan struct{} // closed when the rest is set

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

// install puts a configuration in place. It belongs to the control loop, which
// makes the table of it next.
func (g *Gateway) applyConfig(life context.Context, cfg *config.Config) (Changes, <-chan struct{}, error) {
	if g.demo {
		return Changes{}, nil, errors.New("the built-in demo upstreams are served, which have no configuration")
	}
	if g.draining.Load() {
		return Changes{}, nil, errNotRunning
	}
	was := g.generation.Load()
	own := *cfg
	changes := Changes{Restart: own.Retain(g.cfg, Reloadable)}
	g.secrets.Learn(own.Secrets(os.LookupEnv))
	next, err := g.newGeneration(&own, was)
	if err != nil {
		return Changes{}, nil, err
	}
	if err := g.setKeys(&own); err != nil {
		return Changes{}, nil, err
	}
	changes.compare(was.cfg, &own)
	g.generation.Store(next)
	for _, m := range next.entries {
		m.conn.sessions.SetLogLevel(g.currentLogLevel()) // it may have changed since the link was made
		if m.conn.cancel == nil {
			g.startConnection(life, m.conn)
		}
	}
	g.front.Set(settingsOf(&own))
	g.guardAdmin(&own)
	if !isClosed(was.settled) {
		close(was.settled)
	}
	return changes, next.settled, nil
}

// compare notes what differs.
func (c *Changes) compare(was, now *config.Config) {
	before := enabled(was)
	for _, u := range now.Upstreams {
		hash, there := before[u.Name]
		switch {
		case u.Disabled:
			continue
		case !there:
			c.Added = append(c.Added, u.Name)
		case hash != u.Hash():
			c.Changed = append(c.Changed, u.Name)
		}
		delete(before, u.Name)
	}
	for _, u := range was.Upstreams {
		if _, gone := before[u.Name]; gone {
			c.Removed = append(c.Removed, u.Name)
		}
	}
	probe := *now
	c.Other = len(probe.Retain(was, func(string) bool { return false })) > 0
}

// enabled returns the digests of the upstreams that are not disabled, by name.
func enabled(c *config.Config) map[string]string {
	out := make(map[string]string, len(c.Upstreams))
	for _, u := range c.Upstreams {
		if !u.Disabled {
			out[u.Name] = u.Hash()
		}
	}
	return out
}

// retire ends the links that were used up to now, when the calls that may use them
// have ended.
func (g *Gateway) retireConnections(life context.Context, used map[*connection]*upstreamEntry) {
	var gone []*connection
	for l := range g.inUse {
		if used[l] == nil {
			gone = append(gone, l)
		}
	}
	g.inUse = used
	if len(gone) == 0 {
		return
	}
	g.drainingEpochs = append(slices.DeleteFunc(g.drainingEpochs, func(s *epoch) bool { return isClosed(s.over) }), g.epochs.turn())
	open, limit := slices.Clone(g.drainingEpochs), g.generation.Load().cfg.DrainTimeout
	g.group.Go(func() error {
		if !wait(life, open, limit) {
			g.log.Warn("calls of a configuration that was replaced were still running after drain_timeout and are ended, where they run at an upstream that was replaced or removed",
				zap.Duration("timeout", limit))
		}
		for _, l := range gone {
			l.cancel()
		}
		for _, l := range gone {
			<-l.ended
		}
		return nil
	})
}

// wait returns true when the calls of all shifts have ended, or life does, and
// false when limit passes before that.
func wait(life context.Context, open []*epoch, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, s := range open {
		select {
		case <-s.over:
		case <-life.Done():
			return true
		case <-timer.C:
			return false
		}
	}
	return true
}

// settingsOf translates what of the front end can change.
func settingsOf(c *config.Config) frontend.Settings {
	return frontend.Settings{
		AllowedOrigins: c.AllowedOrigins, AllowedHosts: c.AllowedHosts, PublicURL: c.PublicURL, ParkTTL: c.Bridge.ParkTTL,
		// Without proof, Host is all that tells a page that was rebound.
		CheckHost: c.Auth.Has(config.AuthNone),
	}
}

// guardAdmin decides what the admin address serves, by what the configuration says now.
// Probes and Prometheus name a pod by its number.
func (g *Gateway) guardAdmin(cfg *config.Config) {
	g.adminGuard.Store(origin.New(origin.Options{
		Loopback: origin.OnLoopback(g.cfg.Admin.Listen), Numbers: true, Hosts: cfg.AllowedHosts,
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
