package process

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// maxFirst bounds the lines of [FirstLines].
	maxFirst = 64
	// firstFor is how long after its start a program writes first lines.
	firstFor = 10 * time.Second
)

// FirstLines are the lines that a program writes to its standard error when it starts. A
// server that ends again and again writes the same ones each time, which would fill the log.
// The zero value knows none. Its methods may be called concurrently.
type FirstLines struct {
	mu    sync.Mutex
	lines []uint64 // their digests
}

var firstSeed = maphash.MakeSeed()

// repeat reports whether the program that was started before has written the same line at
// the same place, and remembers the line. began is when the program started.
func (f *FirstLines) repeat(place int, line string, began time.Time) bool {
	if place >= maxFirst || time.Since(began) > firstFor {
		return false
	}
	digest := maphash.String(firstSeed, line)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case place < len(f.lines) && f.lines[place] == digest:
		return true
	case place <= len(f.lines): // the further lines were those of another start
		f.lines = append(f.lines[:place], digest)
	}
	return false
}
