package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBufferClasses(t *testing.T) {
	for class := range classes {
		size := classSize(class)
		if classOf(size) != class || classOf(size+1) != class+1 {
			t.Errorf("class %d has %d bytes: %d, and one byte more %d", class, size, classOf(size), classOf(size+1))
		}
		if class > 0 && size*4 > classSize(class-1)*5 {
			t.Errorf("class %d has %d bytes after %d", class, size, classSize(class-1))
		}
	}
	if got := cap(NewBuffer(1<<20 + 200).B); got > 1<<20+100<<10 {
		t.Errorf("a message of 1 MiB takes %d bytes", got)
	}
	if b := NewBuffer(100 << 20); cap(b.B) != 100<<20 {
		t.Errorf("%d bytes for 100 MiB", cap(b.B))
	}
}

func TestBufferReadAll(t *testing.T) {
	for _, size := range []int{0, 1, 100, 17 << 10, 64 << 10, 64<<10 + 1, 300 << 10, 1 << 20} {
		for _, announced := range []int64{-1, 0, int64(size) - 1, int64(size), int64(size) + 1, 1 << 60} {
			for _, limit := range []int{size, size + 1, 2 << 20, size - 1} {
				want := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
				var b Buffer
				err := b.ReadAll(iotest.DataErrReader(bytes.NewReader(want)), announced, limit)
				if limit < size {
					if err != ErrTooLarge {
						t.Errorf("%d bytes, at most %d: %v", size, limit, err)
					}
					continue
				}
				if err != nil || !bytes.Equal(b.B, want) {
					t.Errorf("%d bytes, %d announced, at most %d: %d bytes, %v", size, announced, limit, len(b.B), err)
				}
				b.Release()
			}
		}
	}
}

// An announcement reserves little memory; bytes that have arrived reserve more.
func TestBufferReservesWhatArrives(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct{ sent, most int }{{0, 70 << 10}, {60 << 10, 70 << 10}, {100 << 10, 2 << 20}, {1 << 20, 1<<20 + 100<<10}} {
		var b Buffer
		err := b.ReadAll(io.MultiReader(strings.NewReader(strings.Repeat("x", tt.sent)), iotest.ErrReader(broken)), 16<<20, 16<<20)
		if tt.sent == 1<<20 { // announced truly
			b = Buffer{}
			err = b.ReadAll(io.MultiReader(strings.NewReader(strings.Repeat("x", tt.sent)), iotest.ErrReader(broken)), 1<<20, 16<<20)
		}
		if err != broken || len(b.B) != tt.sent || cap(b.B) > tt.most {
			t.Errorf("%d bytes sent: %d bytes in %d, %v", tt.sent, len(b.B), cap(b.B), err)
		}
	}
}

func TestBufferGrow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var b Buffer
	var want []byte
	for range 200 {
		b.Grow(len(b.B) + 1 + r.IntN(10<<10))
		more := make([]byte, r.IntN(cap(b.B)-len(b.B)+1))
		for i := range more {
			more[i] = byte(r.Uint32())
		}
		b.B, want = append(b.B, more...), append(want, more...)
		if !bytes.Equal(b.B, want) {
			t.Fatalf("%d bytes differ", len(want))
		}
		if len(want) > 1<<20 {
			break
		}
	}
}

func TestBufferReleasedTwice(t *testing.T) {
	b := &Buffer{B: make([]byte, 10)}
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	b.Release()
}

func TestEditPieces(t *testing.T) {
	for seed := range uint64(200) {
		r := newRandomJSON(seed, false)
		doc := r.object(3)
		e := NewEdit(doc)
		for m := range e.Root().Members() {
			if r.IntN(2) == 0 {
				e.ReplaceString(m.Value, "new")
			}
		}
		e.Add(e.Root(), "added", Raw("1"))
		if got := bytes.Join(e.Pieces(nil), nil); !bytes.Equal(got, e.Bytes()) {
			t.Errorf("%s became %s in pieces, want %s", doc, got, e.Bytes())
		}
	}
}
