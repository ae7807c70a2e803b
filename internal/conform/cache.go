package conform

import (
	"bytes"
	"hash/maphash"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// Cache keeps compiled schemas and the results of checks of items from one build of the
// catalog to the next, and drops those that the last build did not use. Its methods are
// safe for concurrent use, but builds must follow one another. A nil Cache keeps nothing.
type Cache struct {
	schemas toolschema.Cache

	mu       sync.Mutex
	previous map[itemKey]*cachedItem
	current  map[itemKey]*cachedItem // nil between builds
}

// itemKey is the hash of an item and everything else that a check depends on, except the
// budget. Different items may have the same key.
type itemKey struct {
	hash     uint64
	kind     call.Kind
	mode     Mode
	inputs   bool
	sanitize sanitize.Classes
	revision wire.Revision
}

type cachedItem struct {
	raw wire.Raw // as the upstream sent it
	out CheckedItem
}

var itemSeed = maphash.MakeSeed()

func (l *ItemChecker) key(kind call.Kind, item wire.Raw) itemKey {
	return itemKey{maphash.Bytes(itemSeed, item), kind, l.Mode, l.Inputs, l.Sanitize, l.Revision}
}

// Begin begins a build. The caller calls the returned function after it. Builds between a
// Begin and its end are parts of that build: the tables of several profiles are one build.
func (c *Cache) Begin() (end func()) {
	if c == nil || c.isBuilding() {
		return func() {}
	}
	endSchemas := c.schemas.Begin()
	c.mu.Lock()
	c.current = make(map[itemKey]*cachedItem, len(c.previous))
	c.mu.Unlock()
	return func() {
		endSchemas()
		c.mu.Lock()
		c.previous, c.current = c.current, nil
		c.mu.Unlock()
	}
}

func (c *Cache) isBuilding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != nil
}

// schema returns the schema with this text.
func (c *Cache) schema(raw wire.Raw) *toolschema.Schema {
	if c == nil {
		return toolschema.New(raw)
	}
	return c.schemas.Get(raw)
}

// item returns the result of an earlier check, if there is one and its cost is within the
// budget.
func (c *Cache) item(key itemKey, raw wire.Raw, budget *toolschema.Budget) (out CheckedItem, ok bool) {
	if c == nil {
		return out, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.current[key]
	if cached == nil {
		cached = c.previous[key]
	}
	if cached == nil || !bytes.Equal(cached.raw, raw) || !budget.Spend(cached.out.cost) {
		return out, false
	}
	if c.current != nil {
		again := &cachedItem{raw, cached.out}
		if sameSlice(cached.out.Item, cached.raw) {
			again.out.Item = raw // so that the previous list is not kept in memory
		}
		c.current[key], cached = again, again
		c.schemas.Keep(cached.out.Input)
		c.schemas.Keep(cached.out.Output)
	}
	return cached.out, true
}

// keep keeps the result of a check, unless the budget was too small for it.
func (c *Cache) keep(key itemKey, raw wire.Raw, out CheckedItem) {
	if c == nil || out.overBudget {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current[key] = &cachedItem{raw, out}
	}
}

func sameSlice(a, b wire.Raw) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
