package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"mcpgateway/internal/store"
)

// Each limit has a bucket of tokens, which is a hash, and the holders that run, which are a sorted set by the
// ends of their leases. The hash has the number of tokens t at the time at, and the burst and the rate of the
// limit at that time: when a reload changes the limit, the tokens that were taken stay taken, and come back
// at the higher of both rates. Times are microseconds of the server's clock.
const common = `
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local function text(n) return string.format('%.17g', n) end
local function tokens(key, rate, burst)
  local b = redis.call('HMGET', key, 't', 'at', 'burst', 'rate')
  if not b[1] or not b[2] then return burst, rate end
  local fill = math.max(rate, tonumber(b[4] or 0))
  local left = burst - tonumber(b[3] or burst) + tonumber(b[1])
  return math.min(burst, left + math.max(0, now - tonumber(b[2])) * fill / 1000000), fill
end
local function keep(key, rate, burst, n)
  redis.call('HSET', key, 't', text(n), 'at', text(now), 'burst', burst, 'rate', text(rate))
  redis.call('PEXPIRE', key, text(math.ceil(math.min((burst - n) / rate, 31536000) * 1000) + 1000))
end
local function hold(key, holder, lease)
  redis.call('ZADD', key, text(now + lease * 1000), holder)
  if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, text(lease)) end
end
`

// The arguments are the holder and its lease, and rate, burst and concurrency of each limit.
var acquire = newScript(common + `
local lease = tonumber(ARGV[2])
local limits = {}
for i = 1, #KEYS / 2 do
  local l = {rate = tonumber(ARGV[3*i]), burst = tonumber(ARGV[3*i+1]), concurrent = tonumber(ARGV[3*i+2])}
  limits[i] = l
  if l.concurrent > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2*i], '-inf', text(now))
    if redis.call('ZCARD', KEYS[2*i]) >= l.concurrent then return {i - 1, 1000000} end
  end
  if l.rate > 0 then
    local fill
    l.tokens, fill = tokens(KEYS[2*i-1], l.rate, l.burst)
    if l.tokens < 1 - 1e-9 then return {i - 1, math.ceil((1 - l.tokens) / fill * 1000000)} end
  end
end
for i, l in ipairs(limits) do
  if l.rate > 0 then keep(KEYS[2*i-1], l.rate, l.burst, l.tokens - 1) end
  if l.concurrent > 0 then hold(KEYS[2*i], ARGV[1], lease) end
end
return {-1, 0}`)

// giveBack undoes acquire for one limit.
var giveBack = newScript(common + `
local rate, burst = tonumber(ARGV[2]), tonumber(ARGV[3])
if rate > 0 then keep(KEYS[1], rate, burst, math.min(burst, (tokens(KEYS[1], rate, burst)) + 1)) end
redis.call('ZREM', KEYS[2], ARGV[1])
return 0`)

var renew = newScript(common + `
for i = 2, #ARGV do hold(KEYS[1], ARGV[i], tonumber(ARGV[1])) end
return 0`)

// limitKeys returns the keys of a limit: of its bucket, and of its holders.
func (s *Store) limitKeys(k store.Key) (bucket, running string) {
	key := s.prefix + k.Kind + ":{" + digest(k.Name) + "}"
	return key + ":rate", key + ":running"
}

// Acquire implements store.Limits.
func (s *Store) Acquire(ctx context.Context, holder string, lease time.Duration, limits ...store.Limit) (int, time.Duration, error) {
	if len(limits) == 0 {
		return -1, 0, ctx.Err()
	}
	if !s.cluster {
		return s.acquire(ctx, holder, lease, limits)
	}
	for i := range limits { // a script cannot use keys of several servers
		reached, wait, err := s.acquire(ctx, holder, lease, limits[i:i+1])
		if reached >= 0 || err != nil {
			s.giveBack(ctx, holder, limits[:i])
			return i, wait, err
		}
	}
	return -1, 0, nil
}

// acquire takes one call out of each limit, in one step.
func (s *Store) acquire(ctx context.Context, holder string, lease time.Duration, limits []store.Limit) (int, time.Duration, error) {
	keys := make([]string, 0, 2*len(limits))
	args := make([]any, 0, 2+3*len(limits))
	args = append(args, holder, millis(lease))
	for _, l := range limits {
		bucket, running := s.limitKeys(l.Key)
		keys = append(keys, bucket, running)
		args = append(args, rate(l), l.Burst, l.Concurrent)
	}
	reply, err := s.run(ctx, acquire, keys, args...)
	if err != nil {
		return 0, 0, err
	}
	pair, _ := reply.([]any)
	if len(pair) == 2 {
		reached, ok := pair[0].(int64)
		wait, also := pair[1].(int64)
		if ok && also && reached < int64(len(limits)) {
			return int(reached), time.Duration(wait) * time.Microsecond, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: it gave a reply that the script does not give", store.ErrUnavailable)
}

// rate returns a limit's rate as a script reads it.
func rate(l store.Limit) string { return strconv.FormatFloat(l.Rate, 'g', -1, 64) }

// giveBackTime bounds how long limits are given back. The holders of those that are not are
// forgotten with their leases.
const giveBackTime = 250 * time.Millisecond

// giveBack undoes what was taken from limits, also if the context has ended.
func (s *Store) giveBack(ctx context.Context, holder string, limits []store.Limit) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	for _, l := range limits {
		bucket, running := s.limitKeys(l.Key)
		_, _ = s.run(ctx, giveBack, []string{bucket, running}, holder, rate(l), l.Burst)
	}
}

// Renew implements store.Limits.
func (s *Store) Renew(ctx context.Context, lease time.Duration, holders map[string][]store.Limit) error {
	byKey := make(map[string][]any)
	for holder, limits := range holders {
		for _, l := range limits {
			if l.Concurrent > 0 {
				_, running := s.limitKeys(l.Key)
				byKey[running] = append(byKey[running], holder)
			}
		}
	}
	for key, names := range byKey {
		if _, err := s.run(ctx, renew, []string{key}, append([]any{millis(lease)}, names...)...); err != nil {
			return err
		}
	}
	return nil
}

// Release implements store.Limits.
func (s *Store) Release(ctx context.Context, holder string, limits ...store.Limit) error {
	p := s.client.Pipeline()
	for _, l := range limits {
		if l.Concurrent > 0 {
			_, running := s.limitKeys(l.Key)
			p.ZRem(ctx, running, holder)
		}
	}
	_, err := p.Exec(ctx)
	return failed(ctx, err)
}
