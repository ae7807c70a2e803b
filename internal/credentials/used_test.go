package credentials

import (
	"context"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
)

// countedValues counts the writes of last uses.
type countedValues struct {
	values
	writes int
}

func (c *countedValues) save(ctx context.Context, name string, value []byte) error {
	if strings.HasPrefix(name, usedKind+"\x00") {
		c.writes++
	}
	return c.values.save(ctx, name, value)
}

// A use is recorded once in an hour, whichever of several processes it is in, and goes with the grant.
func TestLastUse(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		as, c, store := gatewaytest.NewAuthServer(t, nil), newClock(), open()
		counted := &countedValues{values: store.values}
		store.values = counted
		s, ann := userSource(t, as, c, store), withToken("ann", "x")
		consent(t, s, ann)
		first := c.now()
		used := func() time.Time {
			t.Helper()
			all, err := open().Grants(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("got %+v, %v", all, err)
			}
			return all[0].Used
		}
		if at := used(); !at.IsZero() {
			t.Errorf("used at %v before the first use", at)
		}
		for range 100 { // almost an hour
			bearer(t, s, ann)
			c.pass(35 * time.Second)
		}
		other := open()
		other.values = counted
		bearer(t, userSourceAt(t, s, other, c), ann)
		if at := used(); !at.Equal(first) || counted.writes != 1 {
			t.Errorf("used at %v after %d writes, want %v after 1", at, counted.writes, first)
		}
		for range 3 { // an hour since the first use, but not since the last one
			bearer(t, s, ann)
			c.pass(35 * time.Second)
		}
		bearer(t, s, ann)
		if at := used(); !at.Equal(c.now()) || counted.writes != 2 {
			t.Errorf("used at %v after %d writes, want %v after 2", at, counted.writes, c.now())
		}
		c.pass(time.Minute)
		consent(t, s, ann) // in place of the grant that was used a minute ago
		if at := used(); !at.IsZero() {
			t.Errorf("a grant was used at %v, before it was given", at)
		}
		bearer(t, s, ann)
		if at := used(); !at.Equal(c.now()) || counted.writes != 3 {
			t.Errorf("used at %v after %d writes, want %v after 3", at, counted.writes, c.now())
		}
		all, _ := store.Grants(t.Context())
		if err := store.Forget(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Minute)
		consent(t, s, ann)
		if at := used(); !at.IsZero() {
			t.Errorf("a new grant was used at %v", at)
		}
		bearer(t, s, ann)
		if at := used(); !at.Equal(c.now()) {
			t.Errorf("a new grant was used at %v, want %v", at, c.now())
		}
	})
}
