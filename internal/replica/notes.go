package replica

import (
	"context"

	"go.uber.org/zap"

	"mcpgateway/internal/store"
)

// Kinds of notes of replicas about themselves.
const (
	topicBegun = "begun" // others see the replica from now on, not only after their next beat
	topicEnded = "ended" // others pass nothing to the replica any more
)

// Tell sends a note to all other replicas, in the background. A note is lost when the store is away, and
// when a replica is too slow.
func (r *Replicas) Tell(kind string, note []byte) {
	f := &frame{kind: frameNote, from: r.o.Name, topic: kind, body: note}
	if len(note) > maxInline {
		r.count(lostNote)
		return
	}
	select {
	case r.notes <- f.encode():
	default:
		r.count(lostNote)
	}
}

// Post sends a note to all replicas that share a store, immediately. For a process that is none of them, from is a
// name that no replica has.
func Post(ctx context.Context, s store.Store, from, kind string, note []byte) error {
	f := &frame{kind: frameNote, from: from, topic: kind, body: note}
	return s.Append(ctx, notesKey, keepNotes, frameTTL, f.encode())
}

// tellLoop sends notes.
func (r *Replicas) tellLoop(ctx context.Context) {
	for {
		select {
		case first := <-r.notes:
			r.tell(ctx, first)
		case <-ctx.Done():
			for { // the last notes: calls that ended while the gateway drained
				select {
				case first := <-r.notes:
					last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
					r.tell(last, first)
					cancel()
				default:
					return
				}
			}
		}
	}
}

// tell sends a note with those that wait behind it.
func (r *Replicas) tell(ctx context.Context, first []byte) {
	batch := [][]byte{first}
	for len(batch) < maxBatch {
		select {
		case note := <-r.notes:
			batch = append(batch, note)
			continue
		default:
		}
		break
	}
	if err := r.o.Store.Append(ctx, notesKey, keepNotes, frameTTL, batch...); err != nil {
		r.o.Metrics.lost.WithLabelValues(lostNote).Add(float64(len(batch)))
		r.log.Warn("notes to other replicas were lost: the store does not answer", zap.Int("notes", len(batch)), zap.Error(err))
	}
}

// notesLoop reads the notes of others.
func (r *Replicas) notesLoop(ctx context.Context) {
	r.follow(ctx, notesKey, func(data []byte) {
		f, err := decode(data)
		if err != nil || f.kind != frameNote {
			r.count(lostMalformed)
			r.log.Warn("a message of another replica is malformed")
			return
		}
		if f.from == r.o.Name {
			return
		}
		switch f.topic {
		case topicBegun:
			r.mu.Lock()
			r.alive[f.from] = true
			r.mu.Unlock()
		case topicEnded:
			r.mu.Lock()
			delete(r.alive, f.from) // its last replies may still be in the inbox
			r.mu.Unlock()
		default:
			if on := r.onNote[f.topic]; on != nil {
				on(f.from, f.body)
			}
		}
	})
}
