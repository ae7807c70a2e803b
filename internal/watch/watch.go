package watch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// quietTime is the time without events before files are read: programs write a file
	// in several steps.
	quietTime = 100 * time.Millisecond
	// maxDelay is the time after which files are read although events go on.
	maxDelay = time.Second
	// pollInterval is how often files are read without any event.
	pollInterval = 5 * time.Second
	// restTime is how long events wait after one that is about another file, and attention how
	// long they are taken after that: a log or an audit in the same folder may be written a
	// thousand times a second. The system merges the events that wait.
	restTime  = 100 * time.Millisecond
	attention = 5 * time.Millisecond
)

// Watcher watches files. Expect may be called by any goroutine at any time.
type Watcher struct {
	read   func(string) ([]byte, error)
	log    *zap.Logger
	update chan struct{} // capacity 1

	ignored atomic.Int64 // events about other files

	mu       sync.Mutex
	expected Set
}

// New returns a Watcher that expects no files yet. read must return the same content as
// was noted in the sets that Expect is given.
func New(read func(string) ([]byte, error), log *zap.Logger) *Watcher {
	return &Watcher{read: read, log: log, update: make(chan struct{}, 1)}
}

// Expect sets the files to watch, with their present content. It does not block.
func (w *Watcher) Expect(s Set) {
	w.mu.Lock()
	w.expected = s.clone()
	w.mu.Unlock()
	select {
	case w.update <- struct{}{}:
	default:
	}
}

func (w *Watcher) expectedSet() Set {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.expected
}

// Run calls changed when a file has another content than expected, until ctx ends. changed
// must not block. It is called again for the same change some seconds later, unless Expect
// has set the new content by then. Run may be called once.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	var events chan fsnotify.Event
	var errors chan error
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("the system cannot report changes of files; they are read every few seconds", zap.Error(err))
	} else {
		defer notify.Close()
		events, errors = notify.Events, notify.Errors
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	settled := time.NewTimer(0) // the first check comes immediately
	defer settled.Stop()
	rested := time.NewTimer(0)
	defer rested.Stop()
	var since time.Time // the time of the first event since the last check
	var awake time.Time // the end of the last rest
	var places map[string]map[string]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.update:
			places = w.watchFolders(notify)
			settled.Reset(0) // a file may have changed before its folder was watched
		case e := <-events:
			if !places[filepath.Dir(e.Name)][filepath.Base(e.Name)] {
				w.ignored.Add(1)
				if time.Since(awake) > attention {
					events = nil
					rested.Reset(restTime)
				}
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			settled.Reset(min(quietTime, max(0, maxDelay-time.Since(since))))
		case <-rested.C:
			awake = time.Now()
			if notify != nil {
				events = notify.Events
			}
		case err := <-errors:
			w.log.Debug("watching files", zap.Error(err))
			settled.Reset(quietTime) // events may have been lost
		case <-poll.C:
			settled.Reset(0)
		case <-settled.C:
			since = time.Time{}
			places = w.watchFolders(notify) // links may lead elsewhere now
			if w.differs() {
				changed()
				poll.Reset(pollInterval) // Expect may follow within that time
			}
		}
	}
}

// differs reports whether any file has another content than expected.
func (w *Watcher) differs() bool {
	for path, expected := range w.expectedSet().files {
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

// watchFolders watches the folders of the expected files and of the links to them, and no
// others. It returns the names that matter in each folder.
func (w *Watcher) watchFolders(notify *fsnotify.Watcher) map[string]map[string]bool {
	places := make(map[string]map[string]bool)
	for path := range w.expectedSet().files {
		visitLinks(path, func(dir, name string) {
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

// visitLinks calls visit for the file at an absolute path and for every link on the way to
// it, with the folder and the name in that folder.
func visitLinks(path string, visit func(dir, name string)) {
	for range maxLinks {
		dir, name := filepath.Dir(path), filepath.Base(path)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			// The folder is reached through links, which may be replaced. Visit those
			// first, then the file in the real folder.
			visitFolderLinks(dir, visit)
			dir = real
		}
		visit(dir, name)
		to, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			return // not a link, or missing
		}
		if path = to; !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
}

// visitFolderLinks visits the links among the elements of the path of a folder.
func visitFolderLinks(path string, visit func(dir, name string)) {
	for range maxLinks {
		link := ""
		for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
			if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
				link = at // ends as the one nearest to the root
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
