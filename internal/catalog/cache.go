package catalog

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// maxViews bounds the views of a table. Each costs a few bytes for every item, and its
	// listings unless another view shares them.
	maxViews = 1024
	// maxCallers bounds the keys of callers whose view is known. Each costs its key.
	maxCallers = 16 << 10
	// ownView begins the key of a view that only callers with the same facts share. No key of
	// rights begins like this.
	ownView = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
)

// viewCache keeps views by what their callers may do, and by the facts about callers from
// which that follows: many callers may share a view. A full cache drops the half of the views
// that was not used for longest. The zero cache is empty.
type viewCache struct {
	clock atomic.Int64 // grows with each use of a view

	mu      sync.RWMutex
	callers map[string]*keptView // by the key of a caller
	views   map[string]*keptView // by the key of the rights
	visible map[string]*listings // by the visible entries
}

type keptView struct {
	view    *View
	visible string
	used    atomic.Int64
}

func (c *viewCache) get(key string) *View {
	c.mu.RLock()
	k := c.callers[key]
	few := len(c.views) <= maxViews/2 // then none is dropped soon
	c.mu.RUnlock()
	if k == nil {
		return nil
	}
	if !few {
		k.used.Store(c.clock.Add(1))
	}
	return k.view
}

// withVisible returns the listings of a kept view with the same visible entries, nil for none.
func (c *viewCache) withVisible(visible string) *listings {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.visible[visible]
}

// join returns the kept view of these rights, nil for none, and keeps it for the caller.
func (c *viewCache) join(caller, rights string) *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.views[rights]
	if k == nil {
		return nil
	}
	c.keepCaller(caller, k)
	return k.view
}

// keepCaller keeps the view of a caller. If there are too many callers, some are forgotten;
// their rights are computed again at their next call. The caller of the method holds mu.
func (c *viewCache) keepCaller(caller string, k *keptView) {
	if len(c.callers) >= maxCallers {
		left := maxCallers / 2
		for key := range c.callers {
			if left--; left < 0 {
				break
			}
			delete(c.callers, key)
		}
	}
	k.used.Store(c.clock.Add(1))
	c.callers[caller] = k
}

// put keeps a view. It returns the view that is kept: another one, if that came first.
func (c *viewCache) put(caller, rights, visible string, v *View) *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.views[rights]; k != nil {
		c.keepCaller(caller, k)
		return k.view
	}
	if c.views == nil {
		c.callers, c.views, c.visible = make(map[string]*keptView), make(map[string]*keptView), make(map[string]*listings)
	}
	if len(c.views) >= maxViews {
		c.shrink()
	}
	if s := c.visible[visible]; s != nil {
		v.listings = s
	} else {
		c.visible[visible] = v.listings
	}
	k := &keptView{view: v, visible: visible}
	c.views[rights] = k
	c.keepCaller(caller, k)
	return v
}

// shrink drops the half of the views that was not used for longest. The caller holds mu.
func (c *viewCache) shrink() {
	type aged struct {
		key  string
		used int64
	}
	var all []aged
	for key, k := range c.views {
		all = append(all, aged{key, k.used.Load()})
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Compare(a.used, b.used) })
	for _, a := range all[:len(all)/2] {
		delete(c.views, a.key)
	}
	kept := make(map[*keptView]bool, len(c.views))
	for _, k := range c.views {
		kept[k] = true
	}
	maps.DeleteFunc(c.callers, func(_ string, k *keptView) bool { return !kept[k] })
	clear(c.visible)
	for _, k := range c.views {
		c.visible[k.visible] = k.view.listings
	}
}
