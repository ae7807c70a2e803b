package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/redis"
	"mcpgateway/test/internal/rig"
)

// BenchmarkOperations measures each operation on a server on this machine, sealed and guarded as the gateway uses it, one at a time.
func BenchmarkOperations(b *testing.B) {
	addr, _ := rig.StartRedis(b)
	guarded := store.NewGuarded(open(b, redis.Options{Addrs: []string{addr}}), store.NewMetrics(), func(_ bool, why error) {
		if why != nil {
			b.Error(why)
		}
	})
	s := store.Sealed(guarded, [][]byte{make([]byte, 32)}, func(kind string, err error) { b.Error(kind, err) })
	value, ttl := make([]byte, 1024), time.Hour
	key := func(name string) store.Key { return store.Key{Kind: "bench", Name: name} }
	limit := func(i int) store.Limit {
		return store.Limit{Key: store.Key{Kind: "limit", Name: fmt.Sprint(i)}, Rate: 1e6, Burst: 1e6, Concurrent: 1e6}
	}
	for _, op := range []struct {
		name string
		f    func(ctx context.Context, i int) error
	}{
		{"Put", func(ctx context.Context, _ int) error { return s.Put(ctx, key("a"), value, ttl) }},
		{"Get", func(ctx context.Context, _ int) error { _, err := s.Get(ctx, key("a")); return err }},
		{"PutNew", func(ctx context.Context, i int) error {
			_, err := s.PutNew(ctx, key(fmt.Sprint(i)), nil, ttl)
			return err
		}},
		{"Take", func(ctx context.Context, i int) error { _, err := s.Take(ctx, key(fmt.Sprint(i))); return err }},
		{"PutField", func(ctx context.Context, _ int) error {
			_, err := s.PutField(ctx, key("f"), "level", []byte("info"), 10, ttl)
			return err
		}},
		{"Fields", func(ctx context.Context, _ int) error { _, err := s.Fields(ctx, key("f")); return err }},
		{"Append", func(ctx context.Context, _ int) error { return s.Append(ctx, key("l"), 1000, ttl, value) }},
		{"Read10", func(ctx context.Context, _ int) error { _, err := s.Read(ctx, key("l"), "", 10, 0); return err }},
		{"Acquire1", func(ctx context.Context, _ int) error {
			_, _, err := s.Acquire(ctx, "holder", ttl, limit(1))
			return err
		}},
		{"Acquire3", func(ctx context.Context, _ int) error {
			_, _, err := s.Acquire(ctx, "holder", ttl, limit(1), limit(2), limit(3))
			return err
		}},
		{"Release3", func(ctx context.Context, _ int) error { return s.Release(ctx, "holder", limit(1), limit(2), limit(3)) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if err := op.f(b.Context(), i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
