package watch

import (
	"crypto/sha256"
	"maps"
	"path/filepath"
)

// Set is files with what was in them, by path. The zero Set has none.
type Set struct{ files map[string]digest }

type digest [sha256.Size]byte

// digestOf is the digest of a content; nil, for a file that cannot be read, has one
// of its own.
func digestOf(data []byte) digest {
	if data == nil {
		return digest{}
	}
	return sha256.Sum256(data)
}

// Note adds a file with its content, nil when it cannot be read. A path that is
// relative is so to the working directory.
func (s *Set) Note(path string, data []byte) {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if s.files == nil {
		s.files = make(map[string]digest)
	}
	s.files[path] = digestOf(data)
}

func (s Set) clone() Set { return Set{maps.Clone(s.files)} }
