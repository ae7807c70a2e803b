package gzipped

import (
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Text is the compressed form of a text with which many members end. The zero Text has
// compressed nothing yet.
type Text struct {
	once   sync.Once
	stream []byte // a whole deflate stream (RFC 1951)
	size   int    // of the text
	crc    uint32 // of the text
	shift  uint32 // moves a CRC-32 over the text
}

// header is that of a member without a name and a time.
const header = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

const maxStored = 1<<16 - 1 // bytes in one stored block

// Append appends to dst the parts of a member that contains begin followed by the text,
// except the compressed text: the member is dst[:cut] from the old end of dst on,
// followed by stream and dst[cut:]. The stream must not be changed.
//
// text are the pieces of the text. They are only read by the first call, which
// compresses them, and must be the same in all calls. Calls at the same time compress
// once.
func (t *Text) Append(dst, begin []byte, text ...[]byte) (out []byte, cut int, stream []byte) {
	t.once.Do(func() { t.compress(text) })
	dst = append(dst, header...)
	for rest := begin; len(rest) > 0; {
		block := rest[:min(len(rest), maxStored)]
		rest = rest[len(block):]
		dst = append(dst, 0) // not the last block, stored
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(block)))
		dst = binary.LittleEndian.AppendUint16(dst, ^uint16(len(block)))
		dst = append(dst, block...)
	}
	cut = len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, multiply(t.shift, crc32.ChecksumIEEE(begin))^t.crc)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(begin)+t.size))
	return dst, cut, t.stream
}

// writers compress texts that are sent many times.
var writers = sync.Pool{New: func() any { return newWriter(flate.DefaultCompression) }}

func newWriter(level int) *flate.Writer {
	w, err := flate.NewWriter(nil, level)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}

func (t *Text) compress(text [][]byte) {
	for _, piece := range text {
		t.size += len(piece)
		t.crc = crc32.Update(t.crc, crc32.IEEETable, piece)
	}
	t.shift = power(t.size)
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	out := make(slice, 0, t.size/8+64)
	w.Reset(&out)
	for _, piece := range text {
		w.Write(piece) // a slice takes everything
	}
	w.Close()
	t.stream = append([]byte(nil), out...) // without the space to grow
}

// slice is an io.Writer that appends.
type slice []byte

// Write implements io.Writer.
func (s *slice) Write(p []byte) (int, error) {
	*s = append(*s, p...)
	return len(p), nil
}

// multiply multiplies two polynomials over GF(2) modulo the polynomial of CRC-32. The
// highest bit of a number is the coefficient of x⁰, as in the CRC-32 of gzip.
func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1 << 31); bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}

// power returns x to the power of 8n. A CRC-32 multiplied by it, plus the CRC-32 of n
// more bytes, is the CRC-32 of all bytes.
func power(n int) uint32 {
	result, base := uint32(1<<31), uint32(1<<23) // x⁰ and x⁸
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(result, base)
		}
		base = multiply(base, base)
	}
	return result
}
