package watch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// quiet is how long there must have been no event before files are read: who
	// writes a file does so in several steps.
	quiet = 100 * time.Millisecond
	// noisy is after what time they are read although events go on.
	noisy = time.Second
	// lookEvery is how often files are read although there was no event.
	lookEvery = 5 * time.Second
)

// Watcher looks after files.
type Watcher struct {
	read func(string) ([]byte, error)
	log  *zap.Logger
	told chan struct{} // capacity 1: what is expected has changed

	mu       sync.Mutex
	expected Set
}

// New returns a Watcher that reads files with read, as those did that note them in
// a Set. It expects none yet.
func New(read func(string) ([]byte, error), log *zap.Logger) *Watcher {
	return &Watcher{read: read, log: log, told: make(chan struct{}, 1)}
}

// Expect says which files to look after, and what was in them. It does not block.
func (w *Watcher) Expect(s Set) {
	w.mu.Lock()
	w.expected = s.clone()
	w.mu.Unlock()
	select {
	case w.told <- struct{}{}:
	default:
	}
}

func (w *Watcher) expects() Set {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.expected
}

// Run calls changed when something else is in the files than is expected, until
// ctx ends. changed must not block; it is called again for the same change, some
// seconds later, unless Expect says by then that what is there was taken in.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	var events chan fsnotify.Event
	var errors chan error
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("the system cannot tell of changes of files; they are looked at every few seconds", zap.Error(err))
	} else {
		defer notify.Close()
		events, errors = notify.Events, notify.Errors
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	settled := time.NewTimer(0) // the first look comes at once
	defer settled.Stop()
	var since time.Time // when the first event came that was not looked after yet
	var places map[string]map[string]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.told:
			places = w.follow(notify)
			settled.Reset(0) // what happened before they were watched
		case e := <-events:
			if !places[filepath.Dir(e.Name)][filepath.Base(e.Name)] {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			settled.Reset(min(quiet, max(0, noisy-time.Since(since))))
		case err := <-errors:
			w.log.Debug("watching files", zap.Error(err))
			settled.Reset(quiet) // events may be lost
		case <-look.C:
			settled.Reset(0)
		case <-settled.C:
			since = time.Time{}
			places = w.follow(notify) // links may lead elsewhere now
			if w.differs() {
				changed()
			}
		}
	}
}

// differs reports whether any file has another content than expected.
func (w *Watcher) differs() bool {
	for path, expected := range w.expects().files {
		info, err := os.Stat(path)
		if err == nil && !info.Mode().IsRegular() {
			continue
		}
		data, err := w.read(path)
		if err != nil {
			data = nil
		}
		if digestOf(data) != expected {
			return true
		}
	}
	return false
}

// follow watches the folders that matter, and no others, and returns the names in
// them that do.
func (w *Watcher) follow(notify *fsnotify.Watcher) map[string]map[string]bool {
	places := make(map[string]map[string]bool)
	for path := range w.expects().files {
		follow(path, func(dir, name string) {
			if places[dir] == nil {
				places[dir] = make(map[string]bool)
			}
			places[dir][name] = true
		})
	}
	if notify == nil {
		return places
	}
	for _, dir := range notify.WatchList() {
		if places[dir] == nil {
			_ = notify.Remove(dir) // it may be gone
		}
	}
	for dir := range places {
		if err := notify.Add(dir); err != nil {
			w.log.Debug("a folder cannot be watched", zap.String("folder", dir), zap.Error(err))
		}
	}
	return places
}

// maxLinks bounds how many links are followed on the way to one file.
const maxLinks = 40

// follow calls visit for the file at an absolute path and every link on the way to
// it, with the folder that it is in and its name there.
func follow(path string, visit func(dir, name string)) {
	for range maxLinks {
		dir, name := filepath.Dir(path), filepath.Base(path)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			// The folder is reached through links, which may be swapped: see to those
			// first, then to the file where it is.
			followDir(dir, visit)
			dir = real
		}
		visit(dir, name)
		to, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			return // it is no link, or not there
		}
		if path = to; !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
}

// followDir visits the links among the elements of the path of a folder.
func followDir(path string, visit func(dir, name string)) {
	for range maxLinks {
		link := ""
		for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
			if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
				link = at // the one nearest to the root is the last that is found
			}
		}
		if link == "" {
			return
		}
		visit(filepath.Dir(link), filepath.Base(link))
		to, err := os.Readlink(link)
		if err != nil {
			return
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(link), to)
		}
		rest, err := filepath.Rel(link, path)
		if err != nil {
			return
		}
		path = filepath.Join(to, rest)
	}
}
