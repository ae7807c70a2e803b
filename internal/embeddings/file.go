package embeddings

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"

	"mcpgateway/internal/atomicfile"
)

// maxFile bounds the size of a file that is read.
const maxFile = 1 << 30

// key identifies a text and the model that made its vector.
type key [sha256.Size]byte

func (s *Server) keyOf(text string) key {
	h := sha256.New()
	for _, part := range []string{s.endpoint(), s.Model, text} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash never fails
		_, _ = io.WriteString(h, part)
	}
	return key(h.Sum(nil))
}

// A file holds records: a key, the number of dimensions, and the vector. It ends where a record
// is not whole, which a crash may leave behind.

// read returns the vectors in a file. A missing file has none.
func read(path string) (map[key][]float32, error) {
	vectors := map[key][]float32{}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return vectors, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, errors.New("the file is too large")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for len(data) >= len(key{})+4 {
		k, n := key(data), int(binary.BigEndian.Uint32(data[len(key{}):]))
		data = data[len(key{})+4:]
		if n == 0 || n > maxDimensions || len(data) < 4*n {
			break
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = math.Float32frombits(binary.BigEndian.Uint32(data[4*i:]))
		}
		data = data[4*n:]
		if normalize(v) {
			vectors[k] = v
		}
	}
	return vectors, nil
}

// appendRecord appends a record to b.
func appendRecord(b []byte, k key, v []float32) []byte {
	b = append(b, k[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	for _, f := range v {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// write replaces a file by one with these vectors.
func write(path string, vectors map[key][]float32) error {
	var b []byte
	for k, v := range vectors {
		b = appendRecord(b, k, v)
	}
	return atomicfile.WriteLater(path, b, 0o600)
}
