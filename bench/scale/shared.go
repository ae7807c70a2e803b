package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/replica/sharedresults"
	"mcpgateway/internal/replica/sharedtasks"
	"mcpgateway/internal/results"
	"mcpgateway/internal/store"
)

const (
	// taskID is the length of a sealed id of a task, tasksEach how many tasks a principal has in the book.
	taskID, tasksEach = 400, 10
	// resultSize is the length of a result, resultsEach how many results a principal keeps.
	resultSize, resultsEach = 64 << 10, 4
	// grantSize is the length of a grant: two tokens, the registration, the scopes.
	grantSize = 2 << 10
)

func principal(i int) *call.Principal { return &call.Principal{Subject: fmt.Sprintf("user-%d", i)} }

// measureTasks measures the book of tasks.
func (b *bench) measureTasks(c *costs) {
	book := sharedtasks.New(b.store, "replica-0")
	id := string(bytes.Repeat([]byte("x"), taskID))
	c.TaskAdd, c.TaskBytes = b.each(b.n, func(i int) error {
		book.Add(b.ctx, principal(i/tasksEach), fmt.Sprint(i), id, int64(i), time.Hour)
		return nil
	})
	c.TaskList, _ = b.each(b.n/tasksEach-1, func(i int) error {
		_, ids, err := book.Of(b.ctx, principal(i), 0)
		if err == nil && len(ids) != tasksEach {
			err = fmt.Errorf("a principal has %d tasks, want %d", len(ids), tasksEach)
		}
		return err
	})
}

// measureResults measures long results of one value each.
func (b *bench) measureResults(c *costs) {
	limits := results.Limits{TTL: time.Hour, Total: 1 << 30, PerOwner: 1 << 30}
	at := func() *sharedresults.Store {
		return sharedresults.New(sharedresults.Options{
			Values: b.store, Local: results.NewMemory(limits, nil), Limits: limits, Metrics: sharedresults.NewMetrics(),
			Unshared: func(err error) { check(err) },
		})
	}
	here, there := at(), at()
	n := b.n / 40
	ids := make([]string, n+1)
	owner := func(i int) results.Owner { return results.Owner{Identity: fmt.Sprintf("user-%d", i/resultsEach)} }
	c.ResultPut, c.ResultBytes = b.each(n, func(i int) (err error) {
		text := bytes.Repeat([]byte{byte('a' + i%20)}, resultSize)
		copy(text, fmt.Sprint(i))
		ids[i], err = here.Put(b.ctx, owner(i), &results.Document{Text: text, Parts: []results.Part{{Kind: "text", End: len(text)}}})
		return err
	})
	c.ResultRead, _ = b.each(n, func(i int) error {
		_, err := there.Get(b.ctx, owner(i), ids[i])
		return err
	})
}

// measureGrants measures what package credentials does with a grant in the store.
func (b *bench) measureGrants(c *costs) {
	value := bytes.Repeat([]byte("x"), grantSize)
	key := func(kind string, i int) store.Key { return store.Key{Kind: kind, Name: id(i)} }
	all := store.Key{Kind: "grants"}
	put := func(ctx context.Context, i int) error {
		if _, err := b.store.PutField(ctx, all, fmt.Sprintf("%022d", i), []byte(id(i)), 1<<20, time.Hour); err != nil {
			return err
		}
		return b.store.Put(ctx, key("grant", i), value, time.Hour)
	}
	_, c.GrantBytes = b.each(b.n, func(i int) error { return put(b.ctx, i) })
	c.GrantRead, _ = b.each(b.n, func(i int) error {
		_, err := b.store.Get(b.ctx, key("grant", i))
		return err
	})
	c.GrantRenew, _ = b.each(b.n, func(i int) error {
		if _, err := b.store.PutNew(b.ctx, key("grant-lock", i), []byte("replica"), time.Minute); err != nil {
			return err
		}
		if _, err := b.store.Get(b.ctx, key("grant", i)); err != nil {
			return err
		}
		if err := put(b.ctx, i); err != nil {
			return err
		}
		return b.store.Delete(b.ctx, key("grant-lock", i))
	})
}
