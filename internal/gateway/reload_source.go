package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/watch"
)

// Source is where the configuration of a gateway comes from.
type Source struct {
	File string // "" if there is no file
	// Load loads the configuration again. It calls note with each file that it reads, as
	// [config.WithFiles] does. Calls of Load do not overlap. Without Load, only
	// [Gateway.Reload] replaces the configuration.
	Load func(note func(path string, data []byte)) (*config.Config, error)
	// Read are the files that were read for Options.Config. The gateway reloads when the
	// content of one of them changes, or of a file that Load has read since.
	Read watch.Set
}

// errNoSource is the error of a reload without a source.
var errNoSource = errors.New("the gateway was started without a configuration file, so there is nothing to reload; restart it with -c FILE")

// ReloadSource loads the configuration again and applies it for [CauseAPI], see [Gateway.Reload].
// Requests that arrive while a reload runs are served together by one more reload.
// ReloadSource also returns when ctx ends; the reload then goes on.
func (g *Gateway) ReloadSource(ctx context.Context) (Changes, error) {
	if g.configSource.Load == nil {
		return Changes{}, errNoSource
	}
	r := g.reloadQueue.request(CauseAPI)
	select {
	case <-r.finished:
	case <-g.controlEnded:
		return Changes{}, errNotRunning
	case <-ctx.Done():
		return Changes{}, ctx.Err()
	}
	return g.await(ctx, r)
}

// RequestReload does the same as [Gateway.ReloadSource] and does not wait. The log has the
// result.
func (g *Gateway) RequestReload(cause Cause) {
	if g.configSource.Load == nil {
		g.log.Warn("nothing is reloaded", zap.Error(errNoSource))
		return
	}
	g.reloadQueue.request(cause)
}

// reloadQueue merges requests to reload. Use newReloadQueue to make one.
type reloadQueue struct {
	pending chan struct{} // capacity 1: next is not nil

	mu   sync.Mutex
	next *reloadRequest // has not begun; shared by all requests until it does
}

func newReloadQueue() *reloadQueue { return &reloadQueue{pending: make(chan struct{}, 1)} }

// request returns the next reload to begin, and adds a cause to it.
func (q *reloadQueue) request(cause Cause) *reloadRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		q.next = newReloadRequest(nil)
		q.pending <- struct{}{}
	}
	if !slices.Contains(q.next.causes, cause) {
		q.next.causes = append(q.next.causes, cause)
	}
	return q.next
}

// take returns the pending reload and removes it from the queue.
func (q *reloadQueue) take() *reloadRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.next
	q.next = nil
	return r
}

// reloadLoop loads the configuration whenever that is requested or a file changes.
func (g *Gateway) reloadLoop(life context.Context) error {
	if g.configSource.Load == nil {
		return nil
	}
	watcher := watch.New(configfile.Read, g.log)
	watcher.Expect(g.configSource.Read)
	g.group.Go(func() error {
		watcher.Run(life, func() {
			g.log.Info("files of the configuration have changed")
			g.RequestReload(CauseFile)
		})
		return nil
	})
	for {
		select {
		case <-life.Done():
			return nil
		case <-g.reloadQueue.pending:
		}
		r := g.reloadQueue.take()
		cfg, err := g.load(life, &r.read)
		if life.Err() != nil {
			return nil
		}
		watcher.Expect(r.read)
		g.rereadTLS()
		if err != nil {
			refused := Changes{Causes: r.causes}
			g.logRefused(refused, err)
			r.finish(refused, nil, err)
			continue
		}
		LogWarnings(g.log, cfg)
		r.cfg = cfg
		select {
		case g.reloads <- r:
			<-r.finished
			watcher.Expect(r.read) // with the TLS files that cannot be used
		case <-life.Done():
			return nil
		}
	}
}

// LogWarnings logs the warnings about a configuration, a line each.
func LogWarnings(log *zap.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings {
		log.Warn("the configuration has a warning", zap.String("at", fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Col)), zap.String("key", w.Path), zap.String("problem", w.Msg))
	}
}

// load loads the configuration. When life ends it does not wait for a file that delivers
// nothing, such as a pipe.
func (g *Gateway) load(life context.Context, read *watch.Set) (*config.Config, error) {
	type loaded struct {
		cfg  *config.Config
		read watch.Set
		err  error
	}
	done := make(chan loaded, 1)
	go func() {
		var l loaded
		l.cfg, l.err = g.configSource.Load(l.read.Note)
		done <- l
	}()
	select {
	case l := <-done:
		*read = l.read
		if errors.Is(l.err, fs.ErrNotExist) { // its advice is for a start
			l.err = fmt.Errorf("%s: there is no such file any more; put it back", g.configSource.File)
		}
		return l.cfg, l.err
	case <-life.Done():
		return nil, life.Err()
	}
}

// logReloaded logs, counts and remembers a reload.
func (g *Gateway) logReloaded(c Changes) {
	last := &inspect.LastReload{At: time.Now(), ReloadReport: reloadReport(c, nil)}
	g.lastReload.Store(last)
	if c.Any() {
		g.lastChange.Store(last)
	}
	outcome := reloadSame
	if c.Any() {
		outcome = reloadChanged
	}
	g.metrics.reloads.WithLabelValues(outcome).Inc()
	if len(last.Kept) == 0 {
		g.metrics.inForce()
	} else {
		g.metrics.partlyInForce()
	}
	g.log.Info("configuration reloaded", zap.String("outcome", outcome), zap.Strings("added", c.Added), zap.Strings("removed", c.Removed),
		zap.Strings("changed", c.Changed), zap.Bool("other_keys", c.Other), zap.Strings("keys", c.Keys),
		zap.Strings("rules_added", last.RulesAdded), zap.Strings("rules_removed", last.RulesRemoved),
		zap.Strings("rules_changed", last.RulesChanged), zap.Strings("causes", last.Causes))
	for _, k := range last.Kept {
		texts := make([]string, len(k.Errors))
		for i, e := range k.Errors {
			texts[i] = e.String()
		}
		g.log.Warn("variables of an upstream are not set; it keeps its connection", zap.String("upstream", k.Upstream),
			zap.Strings("keeps", k.Keeps),
			zap.Strings("variables", k.Variables), zap.Strings("errors", texts))
	}
	if len(c.Restart) > 0 {
		g.log.Warn("some changed keys take effect after a restart", zap.Strings("keys", c.Restart))
	}
}

// logRefused logs, counts and remembers a reload that changed nothing because of an error.
func (g *Gateway) logRefused(c Changes, err error) {
	last := &inspect.LastReload{At: time.Now(), ReloadReport: reloadReport(c, err)}
	g.lastReload.Store(last)
	g.metrics.refused()
	texts := []string{err.Error()}
	if all, ok := errors.AsType[config.Errors](err); ok {
		texts = texts[:0]
		for _, e := range all {
			texts = append(texts, e.Error())
		}
	}
	g.log.Error("the configuration was not reloaded; the one before stays in force", zap.Strings("errors", texts), zap.Strings("causes", last.Causes))
}

// maxReportedRules bounds how many rules a reload names as added, removed or changed.
const maxReportedRules = 20

// firstRules returns the first names, and a last text that says how many are left out.
func firstRules(names []string) []string {
	if left := len(names) - maxReportedRules; left > 0 {
		return append(names[:maxReportedRules:maxReportedRules], fmt.Sprintf("and %d more", left))
	}
	return names
}

// reloadReport describes the result of a reload.
func reloadReport(c Changes, err error) inspect.ReloadReport {
	var causes []string
	for _, cause := range c.Causes {
		causes = append(causes, string(cause))
	}
	if err == nil {
		r := inspect.ReloadReport{
			Status: inspect.ReloadUnchanged, Added: c.Added, Removed: c.Removed, Changed: c.Changed, OtherKeys: c.Other, NeedsRestart: c.Restart,
			Keys: c.Keys, RulesAdded: firstRules(c.Rules.Added), RulesRemoved: firstRules(c.Rules.Removed), RulesChanged: firstRules(c.Rules.Changed),
			Causes: causes,
		}
		if c.Any() {
			r.Status = inspect.ReloadDone
		}
		for _, w := range c.Warnings {
			r.Warnings = append(r.Warnings, reloadError((*config.Error)(&w)))
		}
		for _, k := range c.Kept {
			kept := inspect.KeptUpstream{Upstream: k.Name, Keeps: k.Keeps}
			for _, v := range k.Unset {
				if v.Name != "" && !slices.Contains(kept.Variables, v.Name) {
					kept.Variables = append(kept.Variables, v.Name)
				}
				kept.Errors = append(kept.Errors, reloadError(&v.Place))
			}
			r.Kept = append(r.Kept, kept)
		}
		return r
	}
	r := inspect.ReloadReport{Status: inspect.ReloadRefused, Causes: causes}
	if all, ok := errors.AsType[config.Errors](err); ok {
		for _, e := range all {
			r.Errors = append(r.Errors, reloadError(e))
		}
	} else {
		r.Errors = []inspect.ReloadError{{Message: err.Error()}}
	}
	return r
}

func reloadError(e *config.Error) inspect.ReloadError {
	return inspect.ReloadError{File: e.File, Line: e.Line, Column: e.Col, Key: e.Path, Message: e.Msg}
}

// handleReload serves POST /-/reload.
func (g *Gateway) handleReload(ctx context.Context) (status int, body any) {
	c, err := g.ReloadSource(ctx)
	report := reloadReport(c, err)
	report.CertificateExpires, report.Noticed = g.certificateExpires(), c.Noticed
	if err == nil {
		gen := g.generation.Load()
		for _, e := range gen.entries {
			for _, v := range e.unset {
				report.Errors = append(report.Errors, reloadError(&v.Place))
			}
		}
		for _, glob := range g.unmatchedRestrictions() {
			if !gen.HasWarning(glob) {
				report.Warnings = append(report.Warnings, inspect.ReloadError{File: glob.File, Line: glob.Line, Message: glob.String()})
			}
		}
	}
	if text := g.failingTLS(); text != "" {
		report.Failing = []string{text}
	} else {
		report.CertificateRenewed = g.certificateRenewed()
	}
	if report.Failing = append(report.Failing, g.failingUpstreamTLS()...); len(report.Failing) > 0 {
		report.Noticed = nil // a change of other files is not what was asked about
	}
	switch {
	case err == nil:
		return http.StatusOK, report
	case errors.Is(err, errNoSource):
		return http.StatusConflict, report
	case errors.Is(err, errNotRunning):
		return http.StatusServiceUnavailable, report
	default: // the configuration is invalid or cannot be read
		return http.StatusUnprocessableEntity, report
	}
}
