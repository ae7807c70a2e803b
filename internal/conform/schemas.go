package conform

import (
	"crypto/sha256"
	"sync"

	"mcpgateway/internal/wire"
)

// Schemas keeps the schemas of a table by their text, so that one that stands in
// many tables is compiled once. What no tool of the last table has is dropped.
// All methods may be called by any number of goroutines, but tables are built one
// after the other. A nil Schemas keeps nothing.
type Schemas struct {
	mu    sync.Mutex
	kept  map[[sha256.Size]byte]*Schema
	using map[[sha256.Size]byte]*Schema // nil while no table is being built
}

// Begin is called before a table is built, and the function that it returns
// after.
func (s *Schemas) Begin() (end func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	s.using = make(map[[sha256.Size]byte]*Schema, len(s.kept))
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.kept, s.using = s.using, nil
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
	if schema := s.using[key]; schema != nil {
		return schema
	}
	schema := s.kept[key]
	if schema == nil {
		schema = newSchema(raw)
	}
	if s.using != nil {
		s.using[key] = schema
	}
	return schema
}

// Budget bounds what the schemas of one upstream may cost when a table is built.
type Budget struct{ left int }

// maxSourceNodes is how many objects and arrays the schemas of one upstream may
// have. To compile one takes some 30 µs, once.
const maxSourceNodes = 50_000

// NewBudget returns the budget of one upstream.
func NewBudget() *Budget { return &Budget{maxSourceNodes} }

// take reports whether the schema is within what is left.
func (b *Budget) take(s *Schema) bool {
	if b.left < s.weight {
		return false
	}
	b.left -= s.weight
	return true
}
