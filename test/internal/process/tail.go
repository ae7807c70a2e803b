package process

import "sync"

// maxOutput bounds the kept output of a program.
const maxOutput = 64 << 10

// tail is a writer that keeps the end of its input. It may be used by several goroutines.
type tail struct {
	mu   sync.Mutex
	data []byte
	cut  bool
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	if extra := len(b.data) - maxOutput; extra > 0 {
		b.data = append(b.data[:0], b.data[extra:]...)
		b.cut = true
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return "[…]" + string(b.data)
	}
	return string(b.data)
}
