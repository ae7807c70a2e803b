package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"mcpgateway/internal/store"
)

// dataField is the field of a stream's entry that has its data.
const dataField = "d"

var appendEntries = newScript(`
for i = 3, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[1], '*', 'd', ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0`)

// Append implements store.Logs.
func (s *Store) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	args := make([]any, 0, 2+len(entries))
	args = append(args, keep, millis(ttl))
	for _, data := range entries {
		args = append(args, data)
	}
	_, err := s.run(ctx, appendEntries, []string{s.key(key)}, args...)
	return err
}

// Last implements store.Logs.
func (s *Store) Last(ctx context.Context, key store.Key) (string, error) {
	last, err := s.client.XRevRangeN(ctx, s.key(key), "+", "-", 1).Result()
	if err != nil || len(last) == 0 {
		return "", failed(ctx, err)
	}
	return last[0].ID, nil
}

// Read implements store.Logs.
func (s *Store) Read(ctx context.Context, key store.Key, after string, max int, wait time.Duration) ([]store.Entry, error) {
	a := &redis.XReadArgs{Streams: []string{s.key(key), after}, Count: int64(max), Block: -1}
	if after == "" {
		a.Streams[1] = "0"
	}
	if wait <= 0 {
		return entries(ctx, s.client.XRead(ctx, a))
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return entries(ctx, s.client.XRead(ctx, a))
	}
	type result struct {
		entries []store.Entry
		err     error
	}
	done := make(chan result, 1)
	s.running.Go(func() { // the library gives up a read at its deadline, and not when its context ends
		defer func() { <-s.turns }()
		found, err := s.await(ctx, a, time.Now().Add(wait))
		done <- result{found, err}
	})
	select {
	case r := <-done:
		return r.entries, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closing.Done():
		return nil, store.ErrUnavailable
	}
}

// await reads until there are entries, the context ends or the time has come.
func (s *Store) await(ctx context.Context, a *redis.XReadArgs, until time.Time) ([]store.Entry, error) {
	for ctx.Err() == nil && s.closing.Err() == nil {
		a.Block = max(time.Millisecond, min(waitSlice, time.Until(until)))
		slice, cancel := context.WithTimeout(ctx, a.Block+ioTimeout)
		found, err := entries(ctx, s.waiting.XRead(slice, a))
		cancel()
		if len(found) > 0 || err != nil || !time.Now().Before(until) {
			return found, err
		}
	}
	return nil, ctx.Err()
}

// entries returns the reply of a read of one stream.
func entries(ctx context.Context, cmd *redis.XStreamSliceCmd) ([]store.Entry, error) {
	streams, err := cmd.Result()
	if err != nil || len(streams) == 0 {
		return nil, failed(ctx, err)
	}
	out := make([]store.Entry, 0, len(streams[0].Messages))
	for _, m := range streams[0].Messages {
		data, _ := m.Values[dataField].(string) // "" for an entry that somebody else has made
		out = append(out, store.Entry{ID: m.ID, Data: []byte(data)})
	}
	return out, nil
}
