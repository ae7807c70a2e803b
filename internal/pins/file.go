package pins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mcpgateway/internal/atomicfile"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/statedir"
)

// lockTimeout bounds the wait for another process that writes the file, which takes milliseconds.
const lockTimeout = 5 * time.Second

// content is the content of the file.
type content struct {
	Upstreams map[string]map[string]string `json:"upstreams"` // by name: digests by tool
	// History says more about the tools, by upstream and tool. Files of older versions lack it.
	History map[string]map[string]*history `json:"history,omitempty"`
	// Refused are the digests of definitions that a person has refused, by upstream and tool.
	Refused map[string]map[string]string `json:"refused,omitempty"`

	texts int // bytes of the definitions in History, counted by copy
}

// historyOf returns what is known of a tool, which may be empty.
func (c *content) historyOf(upstream, tool string) *history {
	if h := c.History[upstream][tool]; h != nil {
		return h
	}
	return &history{}
}

// copy returns a copy that may be changed.
func (c *content) copy() content {
	next := content{Upstreams: map[string]map[string]string{}, History: map[string]map[string]*history{}, Refused: map[string]map[string]string{}}
	for name, accepted := range c.Upstreams {
		next.Upstreams[name] = maps.Clone(accepted)
	}
	for name, refused := range c.Refused {
		next.Refused[name] = maps.Clone(refused)
	}
	for name, tools := range c.History {
		next.History[name] = make(map[string]*history, len(tools))
		for tool, h := range tools {
			next.History[name][tool] = &history{h.Members, slices.Clone(h.Starts), h.Definition}
			next.texts += len(h.Definition)
		}
	}
	return next
}

// historyFor returns the history of a tool, to be changed.
func (c *content) historyFor(upstream, tool string) *history {
	if c.History[upstream] == nil {
		c.History[upstream] = make(map[string]*history)
	}
	if c.History[upstream][tool] == nil {
		c.History[upstream][tool] = &history{}
	}
	return c.History[upstream][tool]
}

// read reads the file if it has changed. The caller holds mu.
func (s *Store) read() error {
	info, err := os.Stat(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.foreign = s.foreign || s.info != nil
		s.content, s.info = content{}, nil
		return nil
	case err != nil:
		return unreadable(filepath.Dir(s.file), err)
	case sameFile(info, s.info):
		return nil
	}
	var c content
	if err := statedir.ReadFile(s.file, &c); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return unreadable(s.file, err)
		}
		return fmt.Errorf("%s cannot be read: %w; repair the file, or remove it to accept the tools that are listed at the next start", s.file, err)
	}
	s.content, s.info, s.foreign = c, info, true
	return nil
}

// unreadable is the error of a file whose contents are not known. If rights are missing, it says so of path. It does not
// advise to remove the file, because that would accept all tools.
func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return configfile.Unreadable(path, err)
	}
	return fmt.Errorf("the file of pinned tools cannot be read: %w", err)
}

// lockFile keeps others from writing the file until unlock is called, and reads what it says. The
// caller holds mu.
func (s *Store) lockFile() (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	unlock, err = atomicfile.Lock(ctx, s.file)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("another process has locked %s for %s; end it, or try again", s.file, lockTimeout)
	}
	if err != nil {
		return nil, configfile.Unwritable(s.file, err)
	}
	// A file that was replaced twice within one tick of the clock may look like the one before.
	before, foreign := s.info, s.foreign
	s.info = nil
	if err := s.read(); err != nil {
		unlock()
		return nil, err
	}
	if sameFile(before, s.info) {
		s.foreign = foreign
	}
	return unlock, nil
}

// sameFile reports whether two looks at the file found the same one. Infos of no file are nil.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// Changed reports whether another process or store has written the file since it was last asked.
func (s *Store) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		return false // Held reports it
	}
	changed := s.foreign
	s.foreign = false
	return changed
}

// save writes the file. The caller holds mu and has locked the file.
func (s *Store) save(next content) error {
	if err := statedir.WriteFile(s.file, next); err != nil {
		return configfile.Unwritable(s.file, err)
	}
	foreign := s.foreign
	err := s.read()
	s.foreign = foreign
	return err
}
