package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Check reports why a store cannot be used, nil if it can. It does everything that a gateway does with a store, because
// a store may refuse some of it: one that is full, or read-only after a failover, still answers reads, and the
// gateway's user may lack a right. Each operation has this time.
func Check(ctx context.Context, s Store, each time.Duration) error {
	_, err := check(ctx, s, each)
	return err
}

// probeLife is how long the store keeps what a check writes.
const probeLife = time.Second

// The numbers are so high that no limit is ever reached and nothing is refused, however many replicas check.
const (
	probeRate   = 1 << 20
	probeFields = 1 << 20
)

// check is Check. It also reports whether the store has not answered in time.
func check(ctx context.Context, s Store, each time.Duration) (late bool, err error) {
	value, fields, log := Key{Kind: "probe"}, Key{Kind: "probe", Name: "fields"}, Key{Kind: "probe", Name: "log"}
	limit := Limit{Key: Key{Kind: "probe", Name: "limit"}, Rate: probeRate, Burst: probeRate, Concurrent: probeRate}
	fresh := rand.Text() // the store does more for what is new
	for _, op := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return s.Put(ctx, value, nil, probeLife) },
		func(ctx context.Context) (err error) {
			_, err = s.Get(ctx, value)
			return err
		},
		func(ctx context.Context) (err error) {
			_, err = s.PutField(ctx, fields, fresh, nil, probeFields, probeLife)
			return err
		},
		func(ctx context.Context) (err error) {
			_, err = s.Fields(ctx, fields)
			return err
		},
		func(ctx context.Context) error { return s.DeleteField(ctx, fields, fresh) },
		func(ctx context.Context) error { return s.Append(ctx, log, 1, probeLife, nil) },
		func(ctx context.Context) (err error) {
			_, err = s.Last(ctx, log)
			return err
		},
		func(ctx context.Context) (err error) {
			_, err = s.Read(ctx, log, "", 1, 0)
			return err
		},
		func(ctx context.Context) (err error) {
			_, _, err = s.Acquire(ctx, fresh, probeLife, limit)
			return err
		},
		func(ctx context.Context) error { return s.Release(ctx, fresh, limit) },
		func(ctx context.Context) (err error) {
			_, err = s.Take(ctx, value)
			return err
		},
		func(ctx context.Context) error { return s.Delete(ctx, log) },
	} {
		bounded, cancel := context.WithTimeout(ctx, each)
		err := op(bounded)
		late := bounded.Err() != nil
		cancel()
		switch {
		case err == nil || errors.Is(err, ErrWrongType):
		case ctx.Err() != nil:
			return late, ctx.Err()
		default:
			return late, unavailable(err, each)
		}
	}
	return false, nil
}

// unavailable returns an error of a store that wraps ErrUnavailable, also that of an operation which took longer than it
// had time.
func unavailable(err error, limit time.Duration) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: it has not answered within %v", ErrUnavailable, limit.Round(time.Millisecond))
}
