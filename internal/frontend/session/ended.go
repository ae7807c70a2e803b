package session

import "crypto/sha256"

// maxEnded bounds the ids that an endedIDs remembers, which takes a few megabytes.
const maxEnded = 1 << 16

// endedIDs remembers the sealed ids of sessions that were ended. If there are too many, it forgets
// the one that was ended first. The zero value is empty.
type endedIDs struct {
	known map[idDigest]struct{}
	order []idDigest // a ring of maxEnded
	next  int        // where the next one is put; the oldest, if the ring is full
}

// idDigest stands for an id, which is longer.
type idDigest [16]byte

func digestOf(id string) idDigest {
	sum := sha256.Sum256([]byte(id))
	return idDigest(sum[:])
}

func (e *endedIDs) has(id string) bool {
	_, ok := e.known[digestOf(id)]
	return ok
}

// add remembers an id that is not known yet.
func (e *endedIDs) add(id string) {
	if e.known == nil {
		e.known = make(map[idDigest]struct{})
	}
	d := digestOf(id)
	e.known[d] = struct{}{}
	if len(e.order) < maxEnded {
		e.order = append(e.order, d)
		return
	}
	delete(e.known, e.order[e.next])
	e.order[e.next] = d
	e.next = (e.next + 1) % maxEnded
}
