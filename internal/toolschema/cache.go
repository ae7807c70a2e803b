package toolschema

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"mcpgateway/internal/wire"
)

// Cache keeps compiled schemas by their text from one build of the catalog to the next,
// and drops those that the last build did not use. Its methods are safe for concurrent
// use, but builds must follow one another. A nil Cache keeps nothing.
type Cache struct {
	mu       sync.Mutex
	previous map[[sha256.Size]byte]*Schema
	current  map[[sha256.Size]byte]*Schema // nil between builds
}

// Begin begins a build. The caller calls the returned function after it.
func (c *Cache) Begin() (end func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	c.current = make(map[[sha256.Size]byte]*Schema, len(c.previous))
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.previous, c.current = c.current, nil
		c.mu.Unlock()
	}
}

// Get returns the schema with this text.
func (c *Cache) Get(raw wire.Raw) *Schema {
	if c == nil {
		return New(raw)
	}
	key := sha256.Sum256(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if schema := c.current[key]; schema != nil {
		return schema
	}
	schema := c.previous[key]
	if schema == nil {
		schema = New(bytes.Clone(raw)) // it outlives the page of the list that raw is a part of
		schema.key = key
	}
	if c.current != nil {
		c.current[key] = schema
	}
	return schema
}

// Keep keeps a schema that Get has returned during an earlier build.
func (c *Cache) Keep(schema *Schema) {
	if c == nil || schema == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current[schema.key] = schema
	}
}
