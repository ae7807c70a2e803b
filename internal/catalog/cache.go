package catalog

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// maxViews bounds the views of a table. Each costs a few bytes for every item, and its
// listings unless another view shares them.
const maxViews = 1024

// viewCache keeps views by the keys of their rights. A full cache drops the half that was not
// used for longest. The zero cache is empty.
type viewCache struct {
	clock atomic.Int64 // grows with each use of a view

	mu      sync.RWMutex
	views   map[string]*keptView
	visible map[string]*listings // by the visible entries
}

type keptView struct {
	view    *View
	visible string
	used    atomic.Int64
}

func (c *viewCache) get(key string) *View {
	c.mu.RLock()
	k := c.views[key]
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

// put keeps a view. It returns the view that is kept: another one, if that came first.
func (c *viewCache) put(key, visible string, v *View) *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.views[key]; k != nil {
		return k.view
	}
	if c.views == nil {
		c.views, c.visible = make(map[string]*keptView), make(map[string]*listings)
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
	k.used.Store(c.clock.Add(1))
	c.views[key] = k
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
	clear(c.visible)
	for _, k := range c.views {
		c.visible[k.visible] = k.view.listings
	}
}
