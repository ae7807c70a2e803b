package gzipped

import (
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	// sample is how much of a text is compressed before it is known whether that saves
	// enough. Images and other compressed data in base64 do not.
	sample = 32 << 10
	// A compressed text is at most worthNumerator/worthDenominator of the text.
	worthNumerator, worthDenominator = 2, 3
)

// fastWriters compress texts that are sent once.
var fastWriters = sync.Pool{New: func() any { return newWriter(flate.BestSpeed) }}

// Compress appends the text in these pieces to dst as one member. It reports false if the
// beginning of the text shows that compression saves less than a third; out is then dst.
func Compress(dst []byte, text ...[]byte) (out []byte, worth bool) {
	w := fastWriters.Get().(*flate.Writer)
	defer fastWriters.Put(w)
	start := len(dst)
	buf := slice(append(dst, header...))
	w.Reset(&buf)
	var crc uint32
	size, sampled := 0, false
	for _, piece := range text {
		crc = crc32.Update(crc, crc32.IEEETable, piece)
		for len(piece) > 0 {
			part := piece
			if !sampled {
				part = piece[:min(len(piece), sample-size)]
			}
			piece = piece[len(part):]
			size += len(part)
			w.Write(part) // a slice takes everything
			if !sampled && size == sample {
				sampled = true
				w.Flush()
				if (len(buf)-start)*worthDenominator > size*worthNumerator {
					return dst, false
				}
			}
		}
	}
	w.Close()
	buf = binary.LittleEndian.AppendUint32(buf, crc)
	return binary.LittleEndian.AppendUint32(buf, uint32(size)), true
}
