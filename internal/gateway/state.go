package gateway

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"mcpgateway/internal/wire"
)

// state remembers across restarts what is dear to find out: the era of each
// upstream, and its last catalog, which stands in while the upstream is slow to
// start. All of that can be lost without harm, so a folder that cannot be written
// is warned of once and otherwise no error, and what it holds is read all the same; what
// is pinned and grants of users, which are in the same folder, are not its part. Files
// are named by the digest of the
// upstream's configuration: a changed one begins anew. Safe for concurrent use.
type state struct {
	dir string // "" means nothing is kept
	log *zap.Logger
	mu  sync.Mutex // one writer at a time
	// frozen says that the folder cannot be written, and that this was told.
	frozen bool
}

// remembered is what a file of the state folder holds.
type remembered struct {
	Era     string  `json:"era,omitempty"`
	Catalog *listed `json:"catalog,omitempty"`
}

// listed is a catalog as it is kept: the raw items, in the upstream's order.
type listed struct {
	Revision     wire.Revision     `json:"revision"`
	Instructions string            `json:"instructions,omitempty"`
	Capabilities json.RawMessage   `json:"capabilities,omitempty"`
	Tools        []json.RawMessage `json:"tools,omitempty"`
	Resources    []json.RawMessage `json:"resources,omitempty"`
	Templates    []json.RawMessage `json:"templates,omitempty"`
	Prompts      []json.RawMessage `json:"prompts,omitempty"`
}

// maxStateFile bounds what is read back.
const maxStateFile = 64 << 20

// openState returns the state kept in dir, which is made if it is not there.
// With dir "" nothing is kept.
func openState(dir string, log *zap.Logger) *state {
	s := &state{dir: dir, log: log}
	if dir == "" {
		s.lose(errors.New("the environment names no home"))
		return s
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.lose(err)
		s.dir = ""
		return s
	}
	probe, err := os.CreateTemp(dir, "probe-*.tmp")
	if err == nil {
		err = errors.Join(probe.Close(), ignoreMissing(os.Remove(probe.Name())))
	}
	if err != nil {
		s.lose(err)
	}
	return s
}

// lose tells once that nothing can be written, and what that costs.
func (s *state) lose(why error) {
	if s.frozen {
		return
	}
	s.frozen = true
	s.log.Warn("no state folder that can be written; nothing is remembered across restarts",
		zap.String("lost", "eras and last catalogs of upstreams, grants that users gave, what pins accepted"),
		zap.String("hint", "set state_dir to a folder that this user may write"), zap.String("state_dir", s.dir), zap.Error(why))
}

// Era returns the era that was remembered under key, EraUnknown if none was.
func (s *state) Era(key string) wire.Era {
	switch s.load(key).Era {
	case wire.EraLegacy.String():
		return wire.EraLegacy
	case wire.EraModern.String():
		return wire.EraModern
	default:
		return wire.EraUnknown
	}
}

// Remember keeps the era of an upstream under key.
func (s *state) Remember(key string, era wire.Era) {
	s.update(key, func(r *remembered) bool {
		changed := r.Era != era.String()
		r.Era = era.String()
		return changed
	})
}

// catalog returns the last catalog that was kept under key, nil if none was.
func (s *state) catalog(key string) *listed { return s.load(key).Catalog }

// keepCatalog keeps a catalog under key.
func (s *state) keepCatalog(key string, l *listed) {
	s.update(key, func(r *remembered) bool {
		r.Catalog = l
		return true
	})
}

func (s *state) file(key string) string {
	return filepath.Join(s.dir, "upstream-"+key+".json")
}

func (s *state) load(key string) remembered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(key)
}

func (s *state) read(key string) remembered {
	var r remembered
	if s.dir == "" || key == "" {
		return r
	}
	info, err := os.Stat(s.file(key))
	if err != nil || info.Size() > maxStateFile {
		return r
	}
	data, err := os.ReadFile(s.file(key))
	if err == nil {
		err = wire.Check(data, wire.Limits{}, wire.Strict)
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		s.log.Info("remembered state is unreadable and ignored", zap.String("file", s.file(key)), zap.Error(err))
		return remembered{}
	}
	return r
}

func (s *state) update(key string, change func(*remembered) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" || s.frozen || key == "" {
		return
	}
	r := s.read(key)
	if !change(&r) {
		return
	}
	if err := s.write(key, r); err != nil {
		s.lose(err)
	}
}

func (s *state) write(key string, r remembered) error { return replaceFile(s.file(key), r) }

// replaceFile writes a value as JSON to a file that only its owner may read. It
// replaces the file as a whole, so that a reader never sees half of it.
func replaceFile(file string, value any) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(tmp.Name())))
		}
	}()
	enc := json.NewEncoder(tmp)
	enc.SetEscapeHTML(false) // schemas hold < and >, which mean nothing special here
	if err = enc.Encode(value); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
