package conform

import (
	"bytes"
	"crypto/sha256"
	"hash/maphash"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Schemas keeps what a table has cost from one table to the next: schemas by their
// text, so that one that stands in many tables is compiled once, and what was found out
// about items, so that those that are as they were are not looked at again. What is
// not in the last table is dropped. All methods may be called by any number of
// goroutines, but tables are built one after the other. A nil Schemas keeps
// nothing.
type Schemas struct {
	mu    sync.Mutex
	kept  generation
	using generation // its maps are nil while no table is being built
}

// generation is what one table needs.
type generation struct {
	schemas map[[sha256.Size]byte]*Schema
	items   map[itemKey]*keptItem
}

// itemKey tells items apart, and all that the outcome of a check depends on beside
// them but the budget. Items with one key may still differ.
type itemKey struct {
	hash     uint64
	kind     call.Kind
	mode     Mode
	inputs   bool
	sanitize Sanitize
	revision wire.Revision
}

type keptItem struct {
	raw wire.Raw // as the upstream sent it
	out ListItem
}

var itemSeed = maphash.MakeSeed()

func (l *Lists) key(kind call.Kind, item wire.Raw) itemKey {
	return itemKey{maphash.Bytes(itemSeed, item), kind, l.Mode, l.Inputs, l.Sanitize, l.Revision}
}

// Begin is called before a table is built, and the function that it returns
// after.
func (s *Schemas) Begin() (end func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	s.using = generation{
		schemas: make(map[[sha256.Size]byte]*Schema, len(s.kept.schemas)),
		items:   make(map[itemKey]*keptItem, len(s.kept.items)),
	}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.kept, s.using = s.using, generation{}
		s.mu.Unlock()
	}
}

// get returns the schema that raw is.
func (s *Schemas) get(raw wire.Raw) *Schema {
	if s == nil {
		return newSchema(raw)
	}
	key := sha256.Sum256(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema := s.using.schemas[key]; schema != nil {
		return schema
	}
	schema := s.kept.schemas[key]
	if schema == nil {
		// It outlives the page of the list that raw is a part of.
		schema = newSchema(bytes.Clone(raw))
		schema.key = key
	}
	if s.using.schemas != nil {
		s.using.schemas[key] = schema
	}
	return schema
}

// item returns what was found out about an item, if that is known and within the
// budget.
func (s *Schemas) item(key itemKey, raw wire.Raw, budget *Budget) (out ListItem, ok bool) {
	if s == nil {
		return out, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.using.items[key]
	if k == nil {
		k = s.kept.items[key]
	}
	if k == nil || !bytes.Equal(k.raw, raw) || budget != nil && !budget.spend(k.out.weight) {
		return out, false
	}
	if s.using.items != nil {
		now := &keptItem{raw, k.out}
		if sameSlice(k.out.Item, k.raw) {
			now.out.Item = raw // the list of before need not be kept for it
		}
		s.using.items[key], k = now, now
		for _, schema := range []*Schema{k.out.Input, k.out.Output} {
			if schema != nil {
				s.using.schemas[schema.key] = schema
			}
		}
	}
	return k.out, true
}

// keep keeps what was found out about an item.
func (s *Schemas) keep(key itemKey, raw wire.Raw, out ListItem) {
	if s == nil || out.short {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.using.items != nil {
		s.using.items[key] = &keptItem{raw, out}
	}
}

func sameSlice(a, b wire.Raw) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// Budget bounds what the schemas of one upstream may cost when a table is built.
type Budget struct{ left int }

// maxSourceNodes is how many objects and arrays the schemas of one upstream may
// have. To compile one takes some 30 µs, once.
const maxSourceNodes = 50_000

// NewBudget returns the budget of one upstream.
func NewBudget() *Budget { return &Budget{maxSourceNodes} }

// take reports whether the schema is within what is left.
func (b *Budget) take(s *Schema) bool { return b.spend(s.weight) }

func (b *Budget) spend(weight int) bool {
	if b.left < weight {
		return false
	}
	b.left -= weight
	return true
}
