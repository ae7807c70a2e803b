package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	client "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/sessionstore"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/redis"
	"mcpgateway/internal/wire"
)

// cost is what one operation costs on average.
type cost struct {
	Store    float64 // processor time of Redis, in microseconds
	Replica  float64 // processor time of the replica, in microseconds
	Commands float64 // of Redis, those in scripts too
}

// costs are what everything costs.
type costs struct {
	Adopt, AdoptSubscribed, Subscribe, Limit, Event, Ask cost
	TaskAdd, TaskList, ResultPut, ResultRead             cost
	GrantRead, GrantRenew                                cost
	Note                                                 cost    // Store: for each replica that reads it; Replica: likewise
	Beat                                                 float64 // processor time of Redis for one idle replica, in microseconds a second

	SubscribedBytes, EndedBytes, EventBytes, TokenBytes float64 // in the store
	TaskBytes, ResultBytes, GrantBytes                  float64 // likewise
	SessionBytes                                        float64 // in a replica, of a session without streams
}

// bench measures on one Redis server.
type bench struct {
	ctx   context.Context
	redis *client.Client
	store store.Store
	n     int // how often each operation is made
}

func newBench(ctx context.Context, addr string, n int) *bench {
	key := sha256.Sum256([]byte("bench"))
	raw := redis.Open(redis.Options{Addrs: []string{addr}, Prefix: "scale"})
	return &bench{ctx: ctx, redis: client.NewClient(&client.Options{Addr: addr}), store: store.Sealed(raw, [][]byte{key[:]}, func(string, error) {}), n: n}
}

// info returns a number from what Redis says about itself.
func (b *bench) info(section, name string) float64 {
	text, err := b.redis.Info(b.ctx, section).Result()
	check(err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			number, err := strconv.ParseFloat(value, 64)
			check(err)
			return number
		}
	}
	panic("INFO has no " + name)
}

// used returns the processor time of Redis and of this process in seconds.
func (b *bench) used() (server, own float64) {
	return b.info("cpu", "used_cpu_sys") + b.info("cpu", "used_cpu_user"), processorTime()
}

// workers is how many operations run at a time.
const workers = 32

// each makes an operation n times, and returns its cost and the bytes that it leaves in the store.
func (b *bench) each(n int, do func(i int) error) (cost, float64) {
	memory := b.info("memory", "used_memory")
	commands := b.info("stats", "total_commands_processed")
	server, own := b.used()
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				check(do(i))
			}
		})
	}
	group.Wait()
	serverAfter, ownAfter := b.used()
	per := 1e6 / float64(n)
	commands = b.info("stats", "total_commands_processed") - commands
	return cost{(serverAfter - server) * per, (ownAfter - own) * per, commands / float64(n)}, (b.info("memory", "used_memory") - memory) / float64(n)
}

func id(i int) string { return fmt.Sprintf("session-%d", i) }

// subscriptions of a session that has some.
const subscriptions = 5

// measure measures everything. It empties the server's database first and at the end.
func (b *bench) measure() costs {
	check(b.redis.FlushDB(b.ctx).Err())
	defer func() { check(b.redis.FlushDB(b.ctx).Err()) }()
	var c costs
	states := sessionstore.NewStates(b.store, time.Hour, nil)
	expires := time.Now().Add(time.Hour)
	load := func(i int) error {
		_, err := states.Load(b.ctx, id(i))
		return err
	}
	c.Adopt, _ = b.each(b.n, load)
	var bytes float64
	c.Subscribe, bytes = b.each(b.n, func(i int) error {
		uri := fmt.Sprintf("file:///workspace/project/source/file-%d.go", i%subscriptions)
		return states.Change(b.ctx, id(i/subscriptions), expires, session.Change{Subscribed: uri})
	})
	c.SubscribedBytes = bytes * subscriptions
	c.AdoptSubscribed, _ = b.each(b.n/subscriptions, load)
	_, c.EndedBytes = b.each(b.n, func(i int) error { return states.Change(b.ctx, id(-i), expires, session.Change{Ended: true}) })
	c.Limit, _ = b.each(b.n, func(i int) error {
		limit := store.Limit{Key: store.Key{Kind: "limit", Name: id(i % 1000)}, Rate: 1e6, Burst: 1e6, Concurrent: 1000}
		if _, _, err := b.store.Acquire(b.ctx, id(i), time.Minute, limit); err != nil {
			return err
		}
		return b.store.Release(b.ctx, id(i), limit)
	})
	event := make([]byte, 500)
	c.Event, c.EventBytes = b.each(b.n, func(i int) error {
		return b.store.Append(b.ctx, store.Key{Kind: "events", Name: id(i / 10)}, 1000, time.Hour, event)
	})
	_, c.TokenBytes = b.each(b.n, func(i int) error {
		_, err := b.store.PutNew(b.ctx, store.Key{Kind: "token", Name: id(i)}, []byte{1}, time.Hour)
		return err
	})
	b.measureTasks(&c)
	b.measureResults(&c)
	b.measureGrants(&c)
	b.measureReplicas(&c)
	c.SessionBytes = sessionBytes()
	return c
}

// readers is how many replicas read notes in a measurement.
const readers = 10

// measureReplicas measures what replicas cost that talk with one another.
func (b *bench) measureReplicas(c *costs) {
	ctx, end := context.WithCancel(b.ctx)
	var group sync.WaitGroup
	var heard atomic.Int64
	var all []*replica.Replicas
	for i := range readers {
		r := replica.New(replica.Options{Store: b.store, Name: fmt.Sprintf("replica-%d", i), Logger: zap.NewNop()})
		r.Handle("echo", func(_ context.Context, _ string, request []byte, _ *replica.Conversation) ([]byte, error) {
			return request, nil
		})
		r.OnNote("note", func(string, []byte) { heard.Add(1) })
		all = append(all, r)
		group.Go(func() { r.Run(ctx) })
	}
	for _, r := range all {
		for len(r.Others()) < readers-1 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	const idle = 5 * time.Second
	before, _ := b.used()
	time.Sleep(idle)
	after, _ := b.used()
	c.Beat = (after - before) * 1e6 / idle.Seconds() / readers

	request := make([]byte, 1<<10)
	c.Ask, _ = b.each(b.n/4, func(int) error {
		_, err := all[0].Call(ctx, "replica-1", "echo", request, nil)
		return err
	})
	n := b.n / 10
	c.Note, _ = b.each(n, func(i int) error {
		all[0].Tell("note", request[:300])
		for heard.Load() < int64((i-workers)*(readers-1)) { // else notes would be dropped
			time.Sleep(100 * time.Microsecond)
		}
		return nil
	})
	c.Note.Store /= readers
	c.Note.Replica /= readers
	c.Note.Commands /= readers
	end()
	group.Wait()
}

// sessionBytes returns the memory of a session of a legacy client that has no stream.
func sessionBytes() float64 {
	const n = 20_000
	key := sha256.Sum256([]byte("bench"))
	ids := session.NewIDs([][]byte{key[:]}, time.Hour)
	table := session.NewTable(session.TableOptions{
		Max: n, Idle: time.Hour, Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sessions"}), Ended: func(string) {}, LogLevel: func(wire.Level) {},
	})
	before := heap()
	for range n {
		claims := ids.Seal(&call.Client{Revision: wire.LatestLegacy, Info: wire.Raw(`{"name":"client","version":"1.0.0"}`), Capabilities: wire.Raw(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}`)}, call.Anonymous, time.Now())
		_, err := table.Adopt(session.Config{Principal: call.Anonymous, Claims: claims, Log: stream.NewMemoryLog(nil, 0)})
		check(err)
	}
	used := heap() - before
	runtime.KeepAlive(table)
	return used / n
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
