package storetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"mcpgateway/internal/store"
)

// Memory is a store in the memory of this process, for gateways within one test. It bounds
// nothing by itself. The zero value is ready for use.
type Memory struct {
	mu     sync.Mutex
	items  map[store.Key]*item
	swept  time.Time
	number uint64        // of the last entry of all logs
	grown  chan struct{} // closed when a log grows, nil if nobody waits
}

// item is what is kept under one key: one of its members is used.
type item struct {
	ends    time.Time
	value   []byte
	fields  map[string][]byte
	entries []store.Entry
	limit   *counter
}

// sweepPause is how long things that have ended may stay in memory.
const sweepPause = time.Second

// get returns what is kept under a key, nil if nothing is. The caller holds mu.
func (m *Memory) get(key store.Key) *item {
	if it := m.items[key]; it != nil && time.Now().Before(it.ends) {
		return it
	}
	return nil
}

// at returns what is kept under a key for another ttl, and makes it if there is nothing. The
// caller holds mu.
func (m *Memory) at(key store.Key, ttl time.Duration) *item {
	now := time.Now()
	if m.items == nil {
		m.items = make(map[store.Key]*item)
	}
	if now.Sub(m.swept) >= sweepPause {
		maps.DeleteFunc(m.items, func(_ store.Key, it *item) bool { return !now.Before(it.ends) })
		m.swept = now
	}
	it := m.get(key)
	if it == nil {
		it = new(item)
		m.items[key] = it
	}
	it.ends = now.Add(ttl)
	return it
}

// Get implements Values.
func (m *Memory) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([][]byte, len(keys))
	for i, key := range keys {
		if it := m.get(key); it != nil {
			out[i] = bytes.Clone(it.value)
		}
	}
	return out, ctx.Err()
}

// Put implements Values.
func (m *Memory) Put(ctx context.Context, key store.Key, value []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(key, ttl).value = clone(value)
	return ctx.Err()
}

// PutNew implements Values.
func (m *Memory) PutNew(ctx context.Context, key store.Key, value []byte, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.get(key) != nil {
		return false, ctx.Err()
	}
	m.at(key, ttl).value = clone(value)
	return true, ctx.Err()
}

// Take implements Values.
func (m *Memory) Take(ctx context.Context, key store.Key) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.get(key)
	if it == nil {
		return nil, ctx.Err()
	}
	delete(m.items, key)
	return it.value, ctx.Err()
}

// Delete implements Values.
func (m *Memory) Delete(ctx context.Context, keys ...store.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.items, key)
	}
	return ctx.Err()
}

// Fields implements Fields.
func (m *Memory) Fields(ctx context.Context, key store.Key) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.get(key)
	if it == nil {
		return nil, ctx.Err()
	}
	out := make(map[string][]byte, len(it.fields))
	for name, value := range it.fields {
		out[name] = clone(value)
	}
	return out, ctx.Err()
}

// PutField implements Fields.
func (m *Memory) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if it := m.get(key); it != nil && it.fields[field] == nil && len(it.fields) >= max || max < 1 {
		return false, ctx.Err()
	}
	it := m.at(key, ttl)
	if it.fields == nil {
		it.fields = make(map[string][]byte)
	}
	it.fields[field] = clone(value)
	return true, ctx.Err()
}

// DeleteField implements Fields.
func (m *Memory) DeleteField(ctx context.Context, key store.Key, field string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if it := m.get(key); it != nil {
		delete(it.fields, field)
	}
	return ctx.Err()
}

// Append implements Logs.
func (m *Memory) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.at(key, ttl)
	for _, data := range entries {
		m.number++
		it.entries = append(it.entries, store.Entry{ID: fmt.Sprintf("%020d", m.number), Data: clone(data)})
	}
	if over := len(it.entries) - keep; over > 0 {
		clear(it.entries[:over]) // so that their data can be collected
		it.entries = it.entries[over:]
	}
	if m.grown != nil {
		close(m.grown)
		m.grown = nil
	}
	return ctx.Err()
}

// Last implements Logs.
func (m *Memory) Last(ctx context.Context, key store.Key) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if it := m.get(key); it != nil && len(it.entries) > 0 {
		return it.entries[len(it.entries)-1].ID, ctx.Err()
	}
	return "", ctx.Err()
}

// Read implements Logs.
func (m *Memory) Read(ctx context.Context, key store.Key, after string, max int, wait time.Duration) ([]store.Entry, error) {
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		entries, grown := m.after(key, after, max)
		if len(entries) > 0 || wait <= 0 {
			return entries, ctx.Err()
		}
		select {
		case <-grown:
		case <-late.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// after returns entries of a log, and a channel that is closed when any log grows.
func (m *Memory) after(key store.Key, after string, max int) ([]store.Entry, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []store.Entry
	if it := m.get(key); it != nil {
		for _, e := range it.entries {
			if e.ID > after && len(out) < max {
				out = append(out, store.Entry{ID: e.ID, Data: clone(e.Data)})
			}
		}
	}
	if m.grown == nil {
		m.grown = make(chan struct{})
	}
	return out, m.grown
}

// clone returns a copy that is not nil, because nil means that nothing is there.
func clone(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }
