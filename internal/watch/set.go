package watch

import (
	"crypto/sha256"
	"maps"
	"path/filepath"
)

// Set is a set of files with digests of their content. The zero Set is empty.
type Set struct{ files map[string]digest }

type digest [sha256.Size]byte

// digestOf returns the digest of a content. A file that cannot be read has the content nil,
// with a digest of its own.
func digestOf(data []byte) digest {
	if data == nil {
		return digest{}
	}
	return sha256.Sum256(data)
}

// Note adds a file with its content, nil if it cannot be read. A relative path is relative
// to the working directory.
func (s *Set) Note(path string, data []byte) {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if s.files == nil {
		s.files = make(map[string]digest)
	}
	s.files[path] = digestOf(data)
}

// Equal reports whether both sets have the same files with the same content.
func (s Set) Equal(t Set) bool { return maps.Equal(s.files, t.files) }

func (s Set) clone() Set { return Set{maps.Clone(s.files)} }
