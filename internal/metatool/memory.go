package metatool

import (
	"container/list"
	"sync"
)

// Bounds on what is remembered of the calls of principals.
const (
	maxPrincipals   = 4096 // the others are forgotten, first who has not called for longest
	maxRemembered   = 64   // tools of one principal
	rememberedBytes = 128  // of one name: longer names are not remembered
)

// memory remembers which tools principals have called. The zero memory is empty.
type memory struct {
	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent list.List // of *remembered, the latest first
}

// remembered are the tools that one principal has called.
type remembered struct {
	key   string
	tools []string // the latest last, each once
}

// remember records that the principal with a key has called a tool.
func (m *memory) remember(key, tool string) {
	if len(tool) > rememberedBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byKey[key]
	if e == nil {
		if m.byKey == nil {
			m.byKey = make(map[string]*list.Element)
		}
		if len(m.byKey) >= maxPrincipals {
			oldest := m.recent.Back()
			delete(m.byKey, oldest.Value.(*remembered).key)
			m.recent.Remove(oldest)
		}
		e = m.recent.PushFront(&remembered{key: key})
		m.byKey[key] = e
	}
	m.recent.MoveToFront(e)
	e.Value.(*remembered).add(tool)
}

// add makes a tool the latest one.
func (r *remembered) add(tool string) {
	kept := make([]string, 0, min(len(r.tools)+1, maxRemembered))
	for _, t := range r.tools {
		if t != tool {
			kept = append(kept, t)
		}
	}
	if len(kept) == maxRemembered {
		kept = kept[1:]
	}
	r.tools = append(kept, tool)
}

// of returns how recently the principal with a key has called tools, by their names: 1 for the
// latest, less for those before, nil for none.
func (m *memory) of(key string) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byKey[key]
	if e == nil {
		return nil
	}
	tools := e.Value.(*remembered).tools
	out := make(map[string]float64, len(tools))
	for i, t := range tools {
		out[t] = float64(maxRemembered-len(tools)+i+1) / maxRemembered
	}
	return out
}
