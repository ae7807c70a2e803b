package router

import (
	"maps"
	"sync"
	"sync/atomic"
)

// memo caches the result of find for each key. Reading a cached result takes no lock. It is for
// few keys, because each new one copies the whole map. Its methods may be called concurrently.
type memo[K comparable, V any] struct {
	find func(K) V // set before the first get
	mu   sync.Mutex
	all  atomic.Pointer[map[K]V] // never changed
}

// values returns the cached results. The caller must not change them.
func (m *memo[K, V]) values() map[K]V {
	if all := m.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (m *memo[K, V]) get(key K) V {
	if all := m.all.Load(); all != nil {
		if v, ok := (*all)[key]; ok {
			return v
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[K]V{}
	if all := m.all.Load(); all != nil {
		if v, ok := (*all)[key]; ok { // added since the first look
			return v
		}
		next = maps.Clone(*all)
	}
	v := m.find(key)
	next[key] = v
	m.all.Store(&next)
	return v
}
