package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"mcpgateway/internal/store"
)

// Get implements store.Values.
func (s *Store) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	out := make([][]byte, len(keys))
	if len(keys) == 1 {
		value, err := s.client.Get(ctx, s.key(keys[0])).Bytes()
		if err == nil {
			out[0] = value
		}
		return out, failed(ctx, err)
	}
	cmds := make([]*redis.StringCmd, len(keys))
	p := s.client.Pipeline() // MGET cannot be used in a Cluster
	for i, key := range keys {
		cmds[i] = p.Get(ctx, s.key(key))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for i, cmd := range cmds {
		value, err := cmd.Bytes()
		if err == nil {
			out[i] = value
		} else if err := failed(ctx, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Put implements store.Values.
func (s *Store) Put(ctx context.Context, key store.Key, value []byte, ttl time.Duration) error {
	_, err := s.do(ctx, "set", s.key(key), value, "px", millis(ttl))
	return failed(ctx, err)
}

// PutNew implements store.Values.
func (s *Store) PutNew(ctx context.Context, key store.Key, value []byte, ttl time.Duration) (bool, error) {
	_, err := s.do(ctx, "set", s.key(key), value, "px", millis(ttl), "nx")
	return err == nil, failed(ctx, err)
}

// Take implements store.Values.
func (s *Store) Take(ctx context.Context, key store.Key) ([]byte, error) {
	reply, err := s.do(ctx, "getdel", s.key(key))
	if err != nil {
		return nil, failed(ctx, err)
	}
	value, _ := reply.(string)
	return []byte(value), nil
}

// Delete implements store.Values.
func (s *Store) Delete(ctx context.Context, keys ...store.Key) error {
	p := s.client.Pipeline()
	for _, key := range keys {
		p.Unlink(ctx, s.key(key))
	}
	_, err := p.Exec(ctx)
	return failed(ctx, err)
}

// Fields implements store.Fields.
func (s *Store) Fields(ctx context.Context, key store.Key) (map[string][]byte, error) {
	values, err := s.client.HGetAll(ctx, s.key(key)).Result()
	if err != nil {
		return nil, failed(ctx, err)
	}
	out := make(map[string][]byte, len(values))
	for name, value := range values {
		out[name] = []byte(value)
	}
	return out, nil
}

var putField = newScript(`
if tonumber(ARGV[3]) < 1 then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`)

// PutField implements store.Fields.
func (s *Store) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	reply, err := s.run(ctx, putField, []string{s.key(key)}, field, value, max, millis(ttl))
	return reply == int64(1), err
}

// DeleteField implements store.Fields.
func (s *Store) DeleteField(ctx context.Context, key store.Key, field string) error {
	return failed(ctx, s.client.HDel(ctx, s.key(key), field).Err())
}
