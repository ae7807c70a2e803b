package toolschema

import (
	"testing"

	"mcpgateway/internal/wire"
)

// TestCacheKeepsSchemasInUse checks that a schema stays from build to build, and goes with
// the last build that has used it.
func TestCacheKeepsSchemasInUse(t *testing.T) {
	var c Cache
	a, b := wire.Raw(`{"type":"object"}`), wire.Raw(`{"type":"array"}`)
	end := c.Begin()
	first, other := c.Get(a), c.Get(b)
	if first == other || c.Get(a) != first {
		t.Error("schemas are distinguished by their text")
	}
	end()
	end = c.Begin()
	if c.Get(wire.Raw(string(a))) != first {
		t.Error("a schema was not kept for the next build")
	}
	end()
	if len(c.previous) != 1 {
		t.Errorf("%d schemas are kept, want the one that is used", len(c.previous))
	}
	end = c.Begin()
	c.Keep(first)
	end()
	end = c.Begin()
	if c.Get(a) != first {
		t.Error("Keep did not keep the schema")
	}
	end()
}
