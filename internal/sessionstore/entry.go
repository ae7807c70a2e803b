package sessionstore

import (
	"encoding/binary"

	"mcpgateway/internal/frontend/stream"
)

// entryVersion begins each entry of a log. Entries of another version are ignored.
const entryVersion = 1

// maxRequests bounds the ids of requests in an entry, in bytes. A stream with longer ones is kept
// without them: nobody can answer its requests.
const maxRequests = 512

// appendEntry appends an entry in its form in the store: version, whether it is the last, number, gap, and
// then texts with their length, the data without one.
func appendEntry(dst []byte, e stream.Entry) []byte {
	if len(e.Requests) > maxRequests {
		e.Requests = ""
	}
	last := byte(0)
	if e.Last {
		last = 1
	}
	dst = append(dst, entryVersion, last)
	dst = binary.AppendUvarint(dst, uint64(e.Number))
	dst = binary.AppendUvarint(dst, uint64(e.Gap))
	for _, text := range []string{e.Requests, e.MovedTo} {
		dst = binary.AppendUvarint(dst, uint64(len(text)))
		dst = append(dst, text...)
	}
	return append(dst, e.Data...)
}

// parseEntry is the inverse of appendEntry. It reports false for what is no entry.
func parseEntry(b []byte) (e stream.Entry, ok bool) {
	if len(b) < 2 || b[0] != entryVersion || b[1] > 1 {
		return e, false
	}
	e.Last, b = b[1] == 1, b[2:]
	for _, to := range []*int{&e.Number, &e.Gap} {
		number, n := binary.Uvarint(b)
		if n <= 0 || number > 1<<40 {
			return e, false
		}
		*to, b = int(number), b[n:]
	}
	for _, text := range []*string{&e.Requests, &e.MovedTo} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) || size > maxRequests {
			return e, false
		}
		*text, b = string(b[n:n+int(size)]), b[n+int(size):]
	}
	e.Data = b
	return e, true
}
