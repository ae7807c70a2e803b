package sharedresults

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"mcpgateway/internal/results"
	"mcpgateway/internal/store"
)

const (
	// version begins the first value of a result. Values of another version are ignored.
	version = 1
	// maxValue bounds one value in the store. A longer result takes several.
	maxValue = 1 << 20
	// idLength is that of the ids of results.
	idLength = 32
)

// header says what the values of a result are.
type header struct {
	Identity string `json:"identity"`
	Profile  string `json:"profile,omitempty"`
	Expires  int64  `json:"expires"` // in seconds since 1970
	Size     int    `json:"size"`    // of the encoded document, in bytes
	Sum      []byte `json:"sum"`     // SHA-256 of the encoded document
}

// field is the entry of a result in the index of a principal.
type field struct {
	Profile string `json:"profile,omitempty"`
	Expires int64  `json:"expires"`
	Size    int64  `json:"size"`  // in memory, for the bound
	Bytes   int    `json:"bytes"` // of the encoded document
	Sum     []byte `json:"sum"`
}

// indexKey is the key of the index of a principal: of what it keeps in all profiles.
func indexKey(identity string) store.Key { return store.Key{Kind: "results", Name: identity} }

// valueKey is the key of a value of a result.
func valueKey(id string, n int) store.Key {
	if n > 0 {
		id += "/" + strconv.Itoa(n)
	}
	return store.Key{Kind: "result", Name: id}
}

// valueKeys are the keys of all values of a result with so many bytes.
func valueKeys(id string, size int) []store.Key {
	keys := make([]store.Key, max(1, (size+maxValue-1)/maxValue))
	for i := range keys {
		keys[i] = valueKey(id, i)
	}
	return keys
}

// sum is the digest of an encoded document.
func sum(encoded []byte) []byte {
	s := sha256.Sum256(encoded)
	return s[:]
}

// first returns the first value of a result.
func first(h header, encoded []byte) []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // a header has no types that can fail
	}
	part := encoded[:min(maxValue, len(encoded))]
	out := make([]byte, 0, 1+binary.MaxVarintLen32+len(text)+len(part))
	out = binary.AppendUvarint(append(out, version), uint64(len(text)))
	return append(append(out, text...), part...)
}

// parseFirst is the inverse of first. It reports false for what is no such value.
func parseFirst(data []byte) (h header, part []byte, ok bool) {
	if len(data) == 0 || data[0] != version {
		return h, nil, false
	}
	size, n := binary.Uvarint(data[1:])
	if data = data[1+max(0, n):]; n <= 0 || size > uint64(len(data)) {
		return h, nil, false
	}
	text, part := data[:size], data[size:]
	ok = json.Unmarshal(text, &h) == nil && h.Size > 0 && len(part) == min(maxValue, h.Size)
	return h, part, ok
}

// isFor reports whether a result is one of an owner that has not expired.
func (h *header) isFor(owner results.Owner) bool {
	return h.Identity == owner.Identity && h.Profile == owner.Profile && time.Now().Unix() < h.Expires
}

// decode returns the document if its bytes are those that were put.
func (h *header) decode(encoded []byte) (*results.Document, bool) {
	if len(encoded) != h.Size || !bytes.Equal(sum(encoded), h.Sum) {
		return nil, false
	}
	d, err := results.DecodeDocument(encoded)
	return d, err == nil
}

// isID reports whether a text can be the id of a result.
func isID(id string) bool {
	if len(id) != idLength {
		return false
	}
	for i := range len(id) {
		if c := id[i]; !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
			return false
		}
	}
	return true
}
