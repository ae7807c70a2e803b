package replica

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/store"
)

// ttl is how long a replica counts as alive after a beat.
func (r *Replicas) ttl() time.Duration { return r.o.Beat * 10 / 3 }

// membersTTL is how long the names of replicas are kept when all have ended.
const membersTTL = time.Hour

func (r *Replicas) beatLoop(ctx context.Context) {
	ticker := time.NewTicker(r.o.Beat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.beat(ctx)
		case <-ctx.Done():
			return
		}
	}
}

var errNameTaken = errors.New("another process has the name of this replica")

// beat shows that this replica is alive, and looks which others are.
func (r *Replicas) beat(ctx context.Context) {
	lost, err := r.showAlive(ctx)
	var names []string
	var values [][]byte
	if err == nil {
		names, values, err = r.findOthers(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.beatFailed(now, err)
		return
	}
	if !r.storeUp {
		r.storeUp, r.since = true, now // signs of life have ended meanwhile, also of replicas that are alive
		r.log.Info("this replica sees the others again", zap.Int("others", len(names)))
	}
	r.lastUp = now
	if lost != nil {
		r.setCursors(lost)
		if r.joined {
			r.since = now
			clear(r.silent)
			if r.o.Forgotten != nil {
				r.o.Forgotten()
			}
		}
	}
	if !r.joined {
		r.joined = true
		close(r.rejoined)
	}
	r.update(names, values, now)
}

// showAlive renews this replica's sign of life. If the store did not have it, showAlive returns the last
// ids of the logs that this replica reads.
func (r *Replicas) showAlive(ctx context.Context) (lost map[store.Key]string, err error) {
	key := aliveKey(r.o.Name)
	values, err := r.o.Store.Get(ctx, key)
	switch {
	case err != nil:
	case values[0] == nil:
		if lost, err = r.lastEntries(ctx); err != nil {
			break
		}
		isNew := false
		if isNew, err = r.o.Store.PutNew(ctx, key, r.instance, r.ttl()); err == nil && !isNew {
			err = errNameTaken
		}
		if err == nil {
			_ = Post(ctx, r.o.Store, r.o.Name, topicBegun, nil) // without it others see this replica with their next beat
		}
	case !bytes.Equal(values[0], r.instance):
		err = errNameTaken
	default:
		err = r.o.Store.Put(ctx, key, r.instance, r.ttl())
	}
	if err == nil {
		_, err = r.o.Store.PutField(ctx, membersKey, r.o.Name, []byte{}, maxPeers, membersTTL)
	}
	return lost, err
}

// lastEntries returns the ids of the last entries of the logs that this replica reads.
func (r *Replicas) lastEntries(ctx context.Context) (map[store.Key]string, error) {
	out := map[store.Key]string{}
	for _, key := range []store.Key{inboxKey(r.o.Name), notesKey} {
		last, err := r.o.Store.Last(ctx, key)
		if err != nil {
			return nil, err
		}
		out[key] = last
	}
	return out, nil
}

// setCursors sets where logs are read on: a replica that joins has nothing to do with what is there, and
// a log that the store has lost begins anew. The caller holds mu.
func (r *Replicas) setCursors(last map[store.Key]string) {
	for key, id := range last {
		if !r.joined || id == "" {
			r.cursors[key] = cursor{id, r.cursors[key].epoch + 1}
		}
	}
}

// findOthers returns the names of the other replicas, and their signs of life.
func (r *Replicas) findOthers(ctx context.Context) (names []string, values [][]byte, err error) {
	fields, err := r.o.Store.Fields(ctx, membersKey)
	if err != nil {
		return nil, nil, err
	}
	delete(fields, r.o.Name)
	for name := range fields {
		names = append(names, name)
	}
	r.mu.Lock()
	for name := range r.peers {
		if fields[name] == nil {
			names = append(names, name)
		}
	}
	for name := range r.alive {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	r.mu.Unlock()
	if len(names) == 0 {
		return nil, nil, nil
	}
	keys := make([]store.Key, len(names))
	for i, name := range names {
		keys[i] = aliveKey(name)
	}
	values, err = r.o.Store.Get(ctx, keys...)
	return names, values, err
}

// believed reports whether a replica without a sign of life has ended. The caller holds mu.
func (r *Replicas) believed(now time.Time) bool {
	return r.since.IsZero() || now.Sub(r.since) > r.ttl()
}

// update takes note of which replicas are alive. The caller holds mu.
func (r *Replicas) update(names []string, values [][]byte, now time.Time) {
	maps.DeleteFunc(r.silent, func(name string, _ time.Time) bool { return !slices.Contains(names, name) })
	for i, name := range names {
		switch p := r.peers[name]; {
		case values[i] != nil:
			r.alive[name] = true
			delete(r.silent, name)
			if p != nil && r.talksWith(name) {
				p.owesHello = true // shows the other side whether the last frames have arrived
				r.startSender(p)
			}
		case !r.believed(now):
		default:
			if r.alive[name] || p != nil {
				r.o.Logger.Info("a replica has ended", zap.String("replica", name))
			}
			delete(r.alive, name)
			if p != nil {
				r.drop(p, lostTo(name, "has ended"))
			}
			r.isSilent(name, now)
		}
	}
	maps.DeleteFunc(r.dropped, func(_ string, p droppedPeer) bool { return now.Sub(p.at) > 10*frameTTL })
	r.o.Metrics.replicas.Set(float64(len(r.alive) + 1))
}

// isSilent handles a replica that shows no sign of life, and has not said that it ends. When it has been silent for long enough, its name leaves the
// store. The caller holds mu.
func (r *Replicas) isSilent(name string, now time.Time) {
	since, known := r.silent[name]
	switch {
	case !known:
		r.silent[name] = now
		return
	case now.Sub(since) < r.o.DeadAfter:
		return
	}
	r.silent[name] = now // if the store does not forget the name, it is the turn of this replica again
	r.running.Go(func() {
		if r.o.Dead != nil {
			r.o.Dead(r.life, name)
		}
		_ = r.o.Store.DeleteField(r.life, membersKey, name)
	})
}

// beatFailed handles a store that is away, or a name that another process has. Conversations wait
// for a while, because messages are not lost while the store is away. The caller holds mu.
func (r *Replicas) beatFailed(now time.Time, err error) {
	taken := errors.Is(err, errNameTaken)
	switch {
	case taken:
		r.log.Error("this replica cannot talk to the others: another process has its name", zap.String("replica", r.o.Name))
	case r.storeUp:
		r.log.Warn("this replica cannot see the others: the store does not answer", zap.Error(err))
	}
	r.storeUp = false
	clear(r.silent) // others may find the store again later than this replica
	if taken && r.joined {
		r.joined = false
		r.rejoined = make(chan struct{})
	}
	if taken || now.Sub(r.lastUp) > 2*r.ttl() {
		for _, p := range r.peers {
			r.drop(p, errors.Join(lostTo(p.name, "cannot be reached"), err))
		}
	}
}

// reachable returns an error if a replica is known to have ended, or cannot be reached now. A client may have
// made up the name: without a sign of life a replica that was never seen gets nothing.
func (r *Replicas) reachable(ctx context.Context, to string) error {
	if err := r.Shown(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	ready, alive := r.storeUp && r.joined && !r.stopped, r.alive[to]
	r.mu.Unlock()
	switch {
	case !ready:
		return store.ErrUnavailable
	case alive:
		return nil
	}
	values, err := r.o.Store.Get(ctx, aliveKey(to))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case values[0] != nil:
		r.alive[to] = true
		return nil
	case !r.believed(time.Now()):
		return store.ErrUnavailable
	}
	return ErrGone
}
