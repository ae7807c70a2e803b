package results

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/wire"
)

var (
	ann = Owner{Identity: "ann", Profile: "p"}
	bob = Owner{Identity: "bob", Profile: "p"}
)

// sized returns a document of this size, in which i makes the difference.
func sized(i, size int) *Document {
	d := &Document{}
	text := fmt.Sprint(i, " ", strings.Repeat("x", size))
	d.add(Part{Kind: kindText}, wire.ValueOf(wire.String(text)))
	d.Text = d.Text[:size-overhead-overhead/4]
	d.Parts[0].End = len(d.Text)
	return d
}

func put(t *testing.T, m *Memory, who Owner, d *Document) string {
	t.Helper()
	id, err := m.Put(context.Background(), who, d)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// has reports whether an owner can read a document.
func has(m *Memory, who Owner, id string) bool {
	d, err := m.Get(context.Background(), who, id)
	return err == nil && d != nil
}

func TestDocumentsAreTheirOwners(t *testing.T) {
	m := NewMemory(Limits{time.Hour, 1 << 20, 1 << 20}, nil)
	defer m.Close()
	id := put(t, m, ann, sized(1, 2000))
	same := put(t, m, bob, sized(1, 2000))
	elsewhere := Owner{Identity: "ann", Profile: "q"}
	if id == same || len(id) != 32 {
		t.Errorf("ids %q and %q", id, same)
	}
	if !has(m, ann, id) || has(m, bob, id) || has(m, elsewhere, id) || has(m, ann, same) || has(m, ann, "") || has(m, Owner{}, id) {
		t.Error("a document is not its owner's alone")
	}
	other := put(t, m, elsewhere, sized(1, 2000))
	if other == id || has(m, ann, other) || !has(m, elsewhere, other) {
		t.Error("an equal document of another profile is the same one")
	}
	if again := put(t, m, ann, sized(1, 2000)); again != id {
		t.Errorf("an equal document has the id %q, and not %q", again, id)
	}
	if _, err := m.Put(context.Background(), ann, sized(2, 2<<20)); err != ErrTooLarge {
		t.Errorf("a document that is too large: %v", err)
	}
	m.Retain(func(profile string) bool { return profile == "q" })
	if has(m, ann, id) || !has(m, elsewhere, other) {
		t.Error("documents of a profile that is gone are kept, or those of another are not")
	}
	if _, err := m.Put(context.Background(), ann, sized(1, 2000)); err != ErrUnread {
		t.Errorf("a document of a profile that is gone is kept: %v", err)
	}
	m.Retain(func(string) bool { return false })
	if m.total != 0 || m.timer != nil || len(m.owners) != 0 {
		t.Error("documents of profiles that are gone are kept")
	}
}

// The same text from other items is another document, which counts the items too.
func TestDocumentsOfOtherItems(t *testing.T) {
	m := NewMemory(Limits{time.Hour, 1 << 20, 1 << 20}, nil)
	defer m.Close()
	of := func(names ...string) *Document {
		d := sized(1, 2000)
		for _, n := range names {
			d.Items = append(d.Items, Item{Kind: wire.ItemTool, Upstream: "u", Name: n, Native: n})
		}
		return d
	}
	a := put(t, m, ann, of("a"))
	if put(t, m, ann, of("a")) != a || put(t, m, ann, of("a", "b")) == a || put(t, m, ann, of("b")) == a || put(t, m, ann, of()) == a {
		t.Error("documents of different items are one, or equal ones are two")
	}
	if of("a", "b").Size() <= of("a").Size() {
		t.Error("the items take no memory")
	}
}

func TestDocumentsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics()
		m := NewMemory(Limits{time.Hour, 1 << 20, 1 << 20}, metrics)
		first := put(t, m, ann, sized(1, 2000))
		time.Sleep(30 * time.Minute)
		second := put(t, m, ann, sized(2, 3000))
		time.Sleep(30*time.Minute - 1)
		if !has(m, ann, first) || !has(m, ann, second) || testutil.ToFloat64(metrics.bytes) != 5000 {
			t.Error("a document expired too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if has(m, ann, first) || !has(m, ann, second) || testutil.ToFloat64(metrics.bytes) != 3000 || testutil.ToFloat64(metrics.kept) != 1 {
			t.Error("a document did not expire")
		}
		if again := put(t, m, ann, sized(2, 3000)); again != second {
			t.Error("an equal document has another id")
		}
		time.Sleep(40 * time.Minute)
		if !has(m, ann, second) {
			t.Error("a document that was put again expired")
		}
		m.SetLimits(Limits{45 * time.Minute, 1 << 20, 1 << 20})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if m.total != 0 {
			t.Error("a shorter time to live does not count for what is kept")
		}
		m.SetLimits(Limits{time.Hour, 1 << 20, 1 << 20})
		put(t, m, ann, sized(3, 2000))
		time.Sleep(time.Hour)
		synctest.Wait()
		if m.total != 0 || m.timer != nil || testutil.ToFloat64(metrics.kept) != 0 || testutil.ToFloat64(metrics.evicted) != 0 {
			t.Error("something is kept that nobody can read")
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	metrics := NewMetrics()
	m := NewMemory(Limits{time.Hour, 10_000, 6_000}, metrics)
	defer m.Close()
	var ids []string
	for i := range 4 {
		ids = append(ids, put(t, m, ann, sized(i, 2000)))
	}
	if has(m, ann, ids[0]) || !has(m, ann, ids[1]) || !has(m, ann, ids[3]) {
		t.Error("the oldest of an owner does not go first")
	}
	bobs := []string{put(t, m, bob, sized(1, 2000)), put(t, m, bob, sized(2, 2000))}
	if m.total != 10_000 {
		t.Fatalf("%d bytes are kept", m.total)
	}
	third := put(t, m, bob, sized(3, 2000)) // bob holds more than what is free
	if has(m, bob, bobs[0]) || !has(m, bob, third) || !has(m, ann, ids[1]) {
		t.Error("an owner pushes out what others keep")
	}
	cyd := Owner{Identity: "cyd", Profile: "p"}
	put(t, m, cyd, sized(1, 2000))
	if has(m, ann, ids[1]) || !has(m, bob, third) {
		t.Error("the oldest of all does not go first")
	}
	if got := testutil.ToFloat64(metrics.evicted); got != 3 {
		t.Errorf("%v were evicted", got)
	}
	m.SetLimits(Limits{time.Hour, 4_000, 2_000})
	for _, h := range m.owners {
		if m.total > 4000 || h.total > 2000 {
			t.Errorf("%d bytes are kept under new limits, %d of one owner", m.total, h.total)
		}
	}
}

// A principal does not multiply what it may keep by using several profiles.
func TestBoundForAllProfiles(t *testing.T) {
	m := NewMemory(Limits{time.Hour, 100_000, 6_000}, nil)
	defer m.Close()
	inOther := Owner{Identity: ann.Identity, Profile: "q"}
	first := put(t, m, ann, sized(1, 2000))
	for n := range 3 {
		put(t, m, inOther, sized(n, 2000))
	}
	if has(m, ann, first) || m.total != 6_000 {
		t.Errorf("%d bytes are kept, the oldest: %v", m.total, has(m, ann, first))
	}
}

// Owners never see documents of others, and the store never holds more than its limits, whatever
// they do at once.
func TestOwnersAtOnce(t *testing.T) {
	m := NewMemory(Limits{time.Hour, 60_000, 20_000}, nil)
	var mu sync.Mutex
	whose := map[string]Owner{}
	var wg sync.WaitGroup
	for i := range 6 {
		who := Owner{Identity: fmt.Sprint(i), Profile: "p"}
		wg.Go(func() {
			for n := range 300 {
				id, err := m.Put(context.Background(), who, sized(n%7, 700+rand.IntN(8000)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if other, ok := whose[id]; ok && other != who {
					t.Errorf("an id of %v and %v", other, who)
				}
				whose[id] = who
				for id, other := range whose {
					if other != who && has(m, who, id) {
						t.Errorf("%v reads what %v keeps", who, other)
					}
					if rand.IntN(20) == 0 {
						break
					}
				}
				mu.Unlock()
				m.mu.Lock()
				if m.total > 60_000 || m.owners[who.Identity] != nil && m.owners[who.Identity].total > 20_000 {
					t.Errorf("%d bytes are kept", m.total)
				}
				m.mu.Unlock()
			}
		})
	}
	wg.Wait()
	var sum int64
	for _, h := range m.owners {
		for _, k := range h.docs {
			sum += k.size
		}
	}
	if sum != m.total {
		t.Errorf("%d bytes are counted, %d kept", m.total, sum)
	}
	m.Close()
}
