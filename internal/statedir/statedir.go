package statedir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"mcpgateway/internal/wire"
)

// Dir remembers the era and the last catalog of each upstream across restarts. The
// catalog stands in while the upstream is slow to start, or is not started before it is
// needed. Everything in it can be lost without harm: a folder that cannot be written is
// reported once, stays readable, and is no error. Files are named by the digest of the
// upstream's configuration, so a changed configuration remembers nothing. The methods
// may be called concurrently.
type Dir struct {
	path string // "" if there is no folder
	log  *zap.Logger
	mu   sync.Mutex // guards the files and readOnly
	// readOnly says that the folder cannot be written, and that this was reported.
	readOnly bool
}

// upstreamFile is the content of the file of one upstream.
type upstreamFile struct {
	// Era has the number of the way in which it is found out in its name: what an
	// older way found is not trusted. Version 1, "era", took stdio servers of both
	// eras for modern ones.
	Era     string   `json:"era_v2,omitempty"`
	Catalog *Catalog `json:"catalog,omitempty"`
}

// Catalog is the last catalog of an upstream: the raw items, in the upstream's order.
type Catalog struct {
	Revision     wire.Revision     `json:"revision"`
	Instructions string            `json:"instructions,omitempty"`
	Server       json.RawMessage   `json:"server,omitempty"` // serverInfo
	Capabilities json.RawMessage   `json:"capabilities,omitempty"`
	Tools        []json.RawMessage `json:"tools,omitempty"`
	Resources    []json.RawMessage `json:"resources,omitempty"`
	Templates    []json.RawMessage `json:"templates,omitempty"`
	Prompts      []json.RawMessage `json:"prompts,omitempty"`
	// Partial says that a list could not be gathered, and that nothing is known of it.
	Partial bool `json:"partial,omitempty"`
}

// ToRaw returns remembered items as items of a catalog.
func ToRaw(items []json.RawMessage) []wire.Raw {
	out := make([]wire.Raw, len(items))
	for i, it := range items {
		out[i] = wire.Raw(it)
	}
	return out
}

// FromRaw returns items of a catalog as items to remember.
func FromRaw(items []wire.Raw) []json.RawMessage {
	out := make([]json.RawMessage, len(items))
	for i, it := range items {
		out[i] = json.RawMessage(it)
	}
	return out
}

// Open opens the folder at path and creates it if it does not exist. With an empty path
// nothing is remembered.
func Open(path string, log *zap.Logger) *Dir {
	d := &Dir{path: path, log: log}
	if path == "" {
		d.setReadOnly(errors.New("the environment has no home directory to put it in"))
		return d
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		d.setReadOnly(err)
		d.path = ""
		return d
	}
	probe, err := os.CreateTemp(path, "probe-*.tmp")
	if err == nil {
		err = errors.Join(probe.Close(), ignoreMissing(os.Remove(probe.Name())))
	}
	if err != nil {
		d.setReadOnly(err)
	}
	return d
}

// Path is the path of the folder. It is empty if there is no folder.
func (d *Dir) Path() string { return d.path }

// setReadOnly stops writing, and reports once what that costs.
func (d *Dir) setReadOnly(why error) {
	if d.readOnly {
		return
	}
	d.readOnly = true
	d.log.Warn("the state folder cannot be written; nothing is remembered across restarts",
		zap.String("lost", "eras and last catalogs of upstreams, grants that users gave, tools that were pinned"),
		zap.String("hint", "set state_dir to a folder that this user can write"), zap.String("state_dir", d.path), zap.Error(why))
}

// Era returns the era that was remembered under key, or EraUnknown.
func (d *Dir) Era(key string) wire.Era {
	switch d.load(key).Era {
	case wire.EraLegacy.String():
		return wire.EraLegacy
	case wire.EraModern.String():
		return wire.EraModern
	default:
		return wire.EraUnknown
	}
}

// Remember keeps the era of an upstream under key.
func (d *Dir) Remember(key string, era wire.Era) {
	d.update(key, func(f *upstreamFile) bool {
		changed := f.Era != era.String()
		f.Era = era.String()
		return changed
	})
}

// Catalog returns the catalog that was remembered under key, or nil.
func (d *Dir) Catalog(key string) *Catalog { return d.load(key).Catalog }

// RememberCatalog keeps the catalog of an upstream under key.
func (d *Dir) RememberCatalog(key string, c *Catalog) {
	d.update(key, func(f *upstreamFile) bool {
		f.Catalog = c
		return true
	})
}

func (d *Dir) file(key string) string {
	return filepath.Join(d.path, "upstream-"+key+".json")
}

func (d *Dir) load(key string) upstreamFile {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.read(key)
}

// read reads the file of an upstream. The caller holds mu.
func (d *Dir) read(key string) upstreamFile {
	if d.path == "" || key == "" {
		return upstreamFile{}
	}
	var f upstreamFile
	if err := ReadFile(d.file(key), &f); err != nil {
		if ignoreMissing(err) != nil {
			d.log.Info("remembered state is unreadable and ignored", zap.String("file", d.file(key)), zap.Error(err))
		}
		return upstreamFile{}
	}
	return f
}

// update changes the file of an upstream. change reports whether there is anything to
// write.
func (d *Dir) update(key string, change func(*upstreamFile) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.path == "" || d.readOnly || key == "" {
		return
	}
	f := d.read(key)
	if !change(&f) {
		return
	}
	if err := WriteFile(d.file(key), f); err != nil {
		d.setReadOnly(err)
	}
}
