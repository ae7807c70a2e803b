package wire

import (
	"io"
	"math/bits"
	"sync"
)

// Buffer is memory for one large message, from a pool that all packages share. Memory that
// nobody uses leaves the pool with the garbage collections that follow. A Buffer belongs
// to one goroutine at a time.
//
// A Buffer that is never released is collected like any other memory. So code
// that cannot tell whether slices of it are still in use does not release it.
type Buffer struct {
	B        []byte
	released bool
}

const (
	// smallestClass is the size of the smallest pooled memory. A sixteenth more than a
	// power of two leaves room for the envelope of a round number of bytes.
	smallestClass = 17 << 10
	// classes is the number of sizes, the largest of which is over 32 MiB. Four sizes lie
	// between one power of two and the next, so that at most a fifth of one is unused.
	classes = 4*11 + 1
)

// pools holds memory by its size, as *Buffer.
var pools [classes]sync.Pool

// classSize returns the size of a class.
func classSize(class int) int { return smallestClass / 4 * (4 + class%4) << (class / 4) }

// classOf returns the smallest class for size bytes, or classes if none is so large.
func classOf(size int) int {
	switch {
	case size <= smallestClass:
		return 0
	case size > classSize(classes-1):
		return classes
	}
	class := 4 * (bits.Len(uint((size-1)/smallestClass)) - 1)
	for classSize(class) < size {
		class++
	}
	return class
}

// NewBuffer returns an empty buffer with room for size bytes.
func NewBuffer(size int) *Buffer {
	class := classOf(size)
	if class == classes {
		return &Buffer{B: make([]byte, 0, size)}
	}
	if b, ok := pools[class].Get().(*Buffer); ok {
		b.B, b.released = b.B[:0], false
		return b
	}
	return &Buffer{B: make([]byte, 0, classSize(class))}
}

// Release lets others use the memory. No slice of it may be used afterwards, and a second
// Release panics: two users would have the same memory. Releasing a nil Buffer has no
// effect.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	if b.released {
		panic("wire: a Buffer was released twice")
	}
	b.released = true
	if poison { // tests under the race detector find readers of released memory
		all := b.B[:cap(b.B)]
		for i := range all {
			all[i] = 0xdb
		}
	}
	if class := classOf(cap(b.B)); class < classes && classSize(class) == cap(b.B) {
		pools[class].Put(b)
	}
}

// Grow makes room for size bytes in all. Slices of the buffer may not be used afterwards.
func (b *Buffer) Grow(size int) {
	if size <= cap(b.B) {
		return
	}
	next := NewBuffer(size)
	next.B = append(next.B, b.B...)
	b.B, next.B = next.B, b.B
	next.Release()
}

const (
	// firstStep is the memory for a message of which nothing has arrived.
	firstStep = 64 << 10
	// trust is how many times the bytes that have arrived are reserved for a message that
	// announces more.
	trust = 16
)

// NextStep returns how much memory a message needs of which have bytes have arrived: as
// much as it announces, but little until much has come, so that an announcement alone
// reserves no memory. announced is -1 if the length is not known.
func NextStep(have int, announced int64, limit int) int {
	size := max(2*have, firstStep)
	if announced >= 0 {
		size = int(min(announced, int64(max(trust*have, firstStep))))
	}
	return min(max(size, have), limit) + 1 // the read that finds the end needs room too
}

// ReadAll appends what r has, at most limit bytes; more is ErrTooLarge. announced is how
// many bytes r claims to have, -1 if it does not say.
func (b *Buffer) ReadAll(r io.Reader, announced int64, limit int) error {
	for {
		if len(b.B) == cap(b.B) {
			b.Grow(NextStep(len(b.B), announced, limit))
		}
		n, err := r.Read(b.B[len(b.B):min(cap(b.B), limit+1)])
		b.B = b.B[:len(b.B)+n]
		switch {
		case len(b.B) > limit:
			return ErrTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
