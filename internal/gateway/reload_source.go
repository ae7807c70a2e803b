package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/watch"
)

// Source is where the configuration of a gateway comes from.
type Source struct {
	File string // "" for none: then there is nothing to load again
	// Load loads it once more. note is called with each file that is read, as
	// [config.WithFiles] does it. Calls of it do not overlap. nil: the gateway is
	// only reloaded by [Gateway.Reload].
	Load func(note func(path string, data []byte)) (*config.Config, error)
	// Read are the files that were read when the gateway was made. It is reloaded
	// when the content of one of them changes, or of those that Load read later.
	Read watch.Set
}

// errNoSource is the error of a reload of nothing.
var errNoSource = errors.New("the gateway was started without a configuration file, so there is none to load again")

// Refresh loads the configuration again and puts it in place, see [Gateway.Reload].
// What is asked for while the same is under way is done once, after that. It
// returns when ctx ends, too; then it goes on all the same.
func (g *Gateway) ReloadSource(ctx context.Context) (Changes, error) {
	if g.configSource.Load == nil {
		return Changes{}, errNoSource
	}
	r := g.reloadQueue.request()
	select {
	case <-r.finished:
	case <-g.controlEnded:
		return Changes{}, errNotRunning
	case <-ctx.Done():
		return Changes{}, ctx.Err()
	}
	return g.await(ctx, r)
}

// RefreshSoon has the configuration loaded again and put in place. It does not
// wait; the log says what comes of it.
func (g *Gateway) RequestReload() {
	if g.configSource.Load == nil {
		g.log.Warn("nothing is reloaded", zap.Error(errNoSource))
		return
	}
	g.reloadQueue.request()
}

// refreshes are the reloads that are asked for. The zero value is not ready, see
// newRefreshes.
type reloadQueue struct {
	wanted chan struct{} // capacity 1: next is not nil

	mu   sync.Mutex
	next *reloadRequest // has not begun; of all that ask meanwhile
}

func newReloadQueue() *reloadQueue { return &reloadQueue{wanted: make(chan struct{}, 1)} }

// want returns the next reload to begin.
func (q *reloadQueue) request() *reloadRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		q.next = newReloadRequest(nil)
		q.wanted <- struct{}{}
	}
	return q.next
}

// take returns the reload that was wanted. From then on others are wanted anew.
func (q *reloadQueue) take() *reloadRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.next
	q.next = nil
	return r
}

// refresh loads the configuration, one time after the other, as often as that is
// asked for or its files change.
func (g *Gateway) reloadLoop(life context.Context) error {
	if g.configSource.Load == nil {
		return nil
	}
	watcher := watch.New(configfile.Read, g.log)
	watcher.Expect(g.configSource.Read)
	g.group.Go(func() error {
		watcher.Run(life, func() {
			g.log.Info("files of the configuration have changed")
			g.RequestReload()
		})
		return nil
	})
	for {
		select {
		case <-life.Done():
			return nil
		case <-g.reloadQueue.wanted:
		}
		r := g.reloadQueue.take()
		var read watch.Set
		cfg, err := g.load(life, &read)
		if life.Err() != nil {
			return nil
		}
		watcher.Expect(read)
		if err != nil {
			g.logRefused(err)
			r.finish(Changes{}, nil, err)
			continue
		}
		for _, w := range cfg.Warnings {
			g.log.Warn(w.String())
		}
		r.cfg = cfg
		select {
		case g.reloads <- r:
			<-r.finished
		case <-life.Done():
			return nil
		}
	}
}

// load does not wait for a file that gives nothing, as a pipe may, when life ends.
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
		return l.cfg, l.err
	case <-life.Done():
		return nil, life.Err()
	}
}

// applied logs and counts a reload.
func (g *Gateway) logReloaded(c Changes) {
	outcome := reloadSame
	if c.Any() {
		outcome = reloadChanged
	}
	g.metrics.reloads.WithLabelValues(outcome).Inc()
	g.log.Info("configuration reloaded", zap.Strings("added", c.Added), zap.Strings("removed", c.Removed),
		zap.Strings("changed", c.Changed), zap.Bool("other_keys", c.Other))
	if len(c.Restart) > 0 {
		g.log.Warn("some keys count from the next start of the gateway on", zap.Strings("keys", c.Restart))
	}
}

// refused logs and counts a reload that changed nothing because of an error.
func (g *Gateway) logRefused(err error) {
	g.metrics.reloads.WithLabelValues(reloadRefused).Inc()
	texts := []string{err.Error()}
	if faults, ok := errors.AsType[config.Errors](err); ok {
		texts = texts[:0]
		for _, f := range faults {
			texts = append(texts, f.Error())
		}
	}
	g.log.Error("the configuration was not reloaded; the one before stays in place", zap.Strings("errors", texts))
}

// reloadAnswer is what the admin address answers to a reload.
type reloadAnswer struct {
	Status       string        `json:"status"` // reloaded, unchanged or refused
	Added        []string      `json:"added,omitempty"`
	Removed      []string      `json:"removed,omitempty"`
	Changed      []string      `json:"changed,omitempty"`
	OtherKeys    bool          `json:"other_keys,omitempty"`
	NeedsRestart []string      `json:"needs_restart,omitempty"`
	Errors       []reloadError `json:"errors,omitempty"`
}

type reloadError struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// answerReload reloads for the admin address.
func (g *Gateway) answerReload(ctx context.Context) (status int, body any) {
	c, err := g.ReloadSource(ctx)
	if err == nil {
		a := reloadAnswer{Status: "unchanged", Added: c.Added, Removed: c.Removed, Changed: c.Changed, OtherKeys: c.Other, NeedsRestart: c.Restart}
		if c.Any() {
			a.Status = "reloaded"
		}
		return http.StatusOK, a
	}
	a := reloadAnswer{Status: "refused"}
	if faults, ok := errors.AsType[config.Errors](err); ok {
		for _, f := range faults {
			a.Errors = append(a.Errors, reloadError{f.File, f.Line, f.Col, f.Path, f.Msg})
		}
	} else {
		a.Errors = []reloadError{{Message: err.Error()}}
	}
	switch {
	case errors.Is(err, errNoSource):
		return http.StatusConflict, a
	case errors.Is(err, errNotRunning):
		return http.StatusServiceUnavailable, a
	default: // of the configuration, also where it cannot be read
		return http.StatusUnprocessableEntity, a
	}
}
