package router

import (
	"slices"
	"sync"

	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// usedItems are the items of upstreams that the inner calls of an own item used, whatever these
// calls were made by. They are as many as a caller sees at most, and count as a part of what is
// kept. The zero value has none. The methods may be called concurrently.
type usedItems struct {
	mu    sync.Mutex
	items []results.Item // sorted, each once
}

func (u *usedItems) add(items []results.Item) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, it := range items {
		if at, found := slices.BinarySearchFunc(u.items, it, results.Item.Compare); !found {
			u.items = slices.Insert(u.items, at, it)
		}
	}
}

func (u *usedItems) list() []results.Item {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.items)
}

// usedItems returns the items of upstreams whose answers are in the answer of the request: the
// target, or those of all inner calls.
func (f *forwarding) usedItems() []results.Item {
	t := &f.target
	if t.Part.Own() {
		return f.used.list()
	}
	return []results.Item{{Kind: wire.ItemTool + wire.Item(t.Kind), Upstream: t.Part.Upstream(), Name: t.OrdinaryName(), Native: t.Native}}
}
