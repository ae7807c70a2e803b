package sharedresults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/results"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

var (
	limits = results.Limits{TTL: time.Hour, Total: 64 << 20, PerOwner: 16 << 20}
	ann    = results.Owner{Identity: "ann"}
	annDev = results.Owner{Identity: "ann", Profile: "dev"}
	bob    = results.Owner{Identity: "bob"}
	keys   = [][]byte{bytes.Repeat([]byte{7}, 32)}
)

func document(text string) *results.Document {
	return &results.Document{
		Text:  []byte(text),
		Parts: []results.Part{{Kind: "text", MIMEType: "text/plain", End: len(text)}, {Kind: "resource", URI: "x:1", Start: len(text), End: len(text), Blob: []byte{1, 2, 0}}},
		Items: []results.Item{{Kind: wire.ItemTool, Upstream: "up", Name: "up__tool", Native: "tool"}},
	}
}

// flaky are values of a store that is away for a while.
type flaky struct {
	store.Store
	away atomic.Bool
	gets atomic.Int64
}

func (f *flaky) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	if f.away.Load() {
		return nil, store.ErrUnavailable
	}
	f.gets.Add(1)
	return f.Store.Get(ctx, keys...)
}

func (f *flaky) Put(ctx context.Context, key store.Key, value []byte, ttl time.Duration) error {
	if f.away.Load() {
		return store.ErrUnavailable
	}
	return f.Store.Put(ctx, key, value, ttl)
}

func (f *flaky) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	if f.away.Load() {
		return false, store.ErrUnavailable
	}
	return f.Store.PutField(ctx, key, field, value, max, ttl)
}

// replica returns the results of one replica.
func replica(v Values, l results.Limits) *Store {
	return New(Options{Values: v, Local: results.NewMemory(l, nil), Limits: l, Metrics: NewMetrics(), Unshared: func(error) {}, Troubled: func() bool { return false }})
}

func put(t *testing.T, s results.Store, owner results.Owner, d *results.Document) string {
	t.Helper()
	id, err := s.Put(t.Context(), owner, d)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func has(t *testing.T, s results.Store, owner results.Owner, id string, want *results.Document) {
	t.Helper()
	if got, err := s.Get(t.Context(), owner, id); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func lacks(t *testing.T, s results.Store, owner results.Owner, id string) {
	t.Helper()
	if got, err := s.Get(t.Context(), owner, id); !errors.Is(err, results.ErrUnknown) {
		t.Errorf("got %v, %v; want ErrUnknown", got, err)
	}
}

// store of the replicas a and b, which are the same for memory.
type kept interface {
	results.Store
	SetLimits(results.Limits)
	Retain(func(string) bool)
}

// The contract of results.Store holds for the memory of one replica, and for two replicas that share a store.
func TestContract(t *testing.T) {
	for name, open := range map[string]func(results.Limits) (a, b kept){
		"memory": func(l results.Limits) (a, b kept) {
			m := results.NewMemory(l, nil)
			return m, m
		},
		"store": func(l results.Limits) (a, b kept) {
			s := store.Sealed(new(storetest.Memory), keys, func(kind string, err error) { t.Errorf("%s: %v", kind, err) })
			return replica(s, l), replica(s, l)
		},
	} {
		for rule, check := range map[string]func(*testing.T, func(results.Limits) (a, b kept)){
			"owners": contractOwners, "expiry": contractExpiry, "equal": contractEqual, "bounds": contractBounds, "profiles": contractProfiles,
		} {
			t.Run(name+"/"+rule, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { check(t, open) })
			})
		}
	}
}

func contractOwners(t *testing.T, open func(results.Limits) (a, b kept)) {
	a, b := open(limits)
	defer a.Retain(none)
	defer b.Retain(none)
	for _, text := range []string{"short", strings.Repeat("a long text of many lines\n", 100_000)} {
		d := document(text)
		id := put(t, a, ann, d)
		has(t, a, ann, id, d)
		has(t, b, ann, id, d)
		for _, s := range []kept{a, b} {
			lacks(t, s, bob, id)
			lacks(t, s, annDev, id)
			lacks(t, s, ann, results.NewID())
			lacks(t, s, ann, id+"/1")
			lacks(t, s, ann, "")
		}
	}
}

func none(string) bool { return false }

func contractExpiry(t *testing.T, open func(results.Limits) (a, b kept)) {
	a, b := open(limits)
	defer a.Retain(none)
	defer b.Retain(none)
	d := document("expires")
	id := put(t, a, ann, d)
	time.Sleep(limits.TTL / 2)
	has(t, b, ann, id, d)
	time.Sleep(limits.TTL/2 + 2*time.Second)
	lacks(t, a, ann, id)
	lacks(t, b, ann, id)
}

func contractEqual(t *testing.T, open func(results.Limits) (a, b kept)) {
	a, b := open(limits)
	defer a.Retain(none)
	defer b.Retain(none)
	id := put(t, a, ann, document("the same"))
	time.Sleep(limits.TTL / 2)
	if other := put(t, b, ann, document("the same")); other != id {
		t.Error("an equal document has another id")
	}
	if other := put(t, b, annDev, document("the same")); other == id {
		t.Error("documents of two profiles have one id")
	}
	time.Sleep(limits.TTL/2 + time.Minute) // the second Put has renewed it
	has(t, b, ann, id, document("the same"))
}

func contractBounds(t *testing.T, open func(results.Limits) (a, b kept)) {
	size := document(strings.Repeat("x", 1000)).Size()
	a, b := open(results.Limits{TTL: time.Hour, Total: 100 * size, PerOwner: 3 * size})
	defer a.Retain(none)
	defer b.Retain(none)
	other := put(t, a, bob, document("of another owner"))
	var ids []string
	var texts []string
	for i := range 6 {
		time.Sleep(2 * time.Second)
		s, text := a, strings.Repeat(fmt.Sprint(i), 1000)
		if i%2 == 1 {
			s = b
		}
		ids, texts = append(ids, put(t, s, ann, document(text))), append(texts, text)
	}
	for i := 3; i < 6; i++ {
		has(t, a, ann, ids[i], document(texts[i]))
		has(t, b, ann, ids[i], document(texts[i]))
	}
	has(t, b, bob, other, document("of another owner"))
	if _, err := a.Put(t.Context(), ann, document(strings.Repeat("x", 5000))); !errors.Is(err, results.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func contractProfiles(t *testing.T, open func(results.Limits) (a, b kept)) {
	a, b := open(limits)
	defer a.Retain(none)
	defer b.Retain(none)
	d := document("of a profile")
	id := put(t, a, annDev, d)
	b.Retain(func(profile string) bool { return profile == "" })
	lacks(t, b, annDev, id)
	if _, err := b.Put(t.Context(), annDev, d); !errors.Is(err, results.ErrUnread) {
		t.Errorf("got %v, want ErrUnread", err)
	}
}

// All results that one principal keeps at many replicas at once stay within the bound in the store.
func TestBoundAcrossReplicas(t *testing.T) {
	var m storetest.Memory
	size := document(strings.Repeat("x", 1000)).Size()
	l := results.Limits{TTL: time.Hour, Total: 100 * size, PerOwner: 4 * size}
	var group sync.WaitGroup
	replicas := make([]*Store, 4)
	for r := range replicas {
		s := replica(&m, l)
		replicas[r] = s
		defer s.Close()
		group.Go(func() {
			for i := range 8 {
				_, err := s.Put(t.Context(), ann, document(strings.Repeat(string(rune('a'+8*r+i)), 1000)))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	index, err := replicas[0].index(t.Context(), ann.Identity)
	if err != nil || len(index) == 0 || len(index) > 4 {
		t.Errorf("the store has %d results, %v; want at most 4", len(index), err)
	}
	// A principal with very many small results loses the oldest ones.
	small := results.Limits{TTL: time.Hour, Total: 1 << 30, PerOwner: 1 << 30}
	s := replica(&m, small)
	defer s.Close()
	for i := range maxOwn + 3 {
		put(t, s, bob, document(fmt.Sprint(i)))
	}
	if index, err := s.index(t.Context(), bob.Identity); err != nil || len(index) > maxOwn || len(index) < maxOwn/2 {
		t.Errorf("the store has %d results, %v", len(index), err)
	}
	if n := len(s.unshared); n > 0 {
		t.Errorf("%d results are not in the store", n)
	}
}

// One replica puts no more into the store than it may keep in total.
func TestTotalOfReplica(t *testing.T) {
	var m storetest.Memory
	size := document(strings.Repeat("x", 1000)).Size()
	a := replica(&m, results.Limits{TTL: time.Hour, Total: 3 * size, PerOwner: 3 * size})
	b := replica(&m, limits)
	defer a.Close()
	defer b.Close()
	var ids []string
	for i := range 5 {
		ids = append(ids, put(t, a, results.Owner{Identity: fmt.Sprint(i)}, document(strings.Repeat(fmt.Sprint(i), 1000))))
	}
	for i, id := range ids {
		_, err := b.Get(t.Context(), results.Owner{Identity: fmt.Sprint(i)}, id)
		if want := i >= 2; (err == nil) != want {
			t.Errorf("result %d: %v", i, err)
		}
	}
	if n := testutil.ToFloat64(a.o.Metrics.evicted); n != 2 {
		t.Errorf("%v results were removed, want 2", n)
	}
}

// A result is read from the store once. Afterwards the replica has it itself.
func TestReadOnce(t *testing.T) {
	f := &flaky{Store: new(storetest.Memory)}
	a, b := replica(f, limits), replica(f, limits)
	defer a.Close()
	defer b.Close()
	d := document(strings.Repeat("line\n", maxValue/2)) // of three values
	id := put(t, a, ann, d)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { has(t, b, ann, id, d) })
	}
	group.Wait()
	if n := f.gets.Load(); n < 3 || n > 3*maxReads {
		t.Errorf("%d reads", n)
	}
	f.away.Store(true)
	has(t, b, ann, id, d)
}

// While the store is away results are kept by the replica alone, and move to the store when it is back.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: new(storetest.Memory)}
		said := 0
		a, b := replica(f, limits), replica(f, limits)
		a.o.Unshared = func(err error) {
			if said++; !errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			a.Run(ctx)
			close(done)
		}()
		f.away.Store(true)
		d := document("kept while the store is away")
		id := put(t, a, ann, d)
		has(t, a, ann, id, d)
		if _, err := b.Get(t.Context(), ann, id); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v: it is not known whether there is such a result", err)
		}
		if n := testutil.ToFloat64(a.o.Metrics.unshared); said != 1 || n != 1 {
			t.Errorf("%d notes, %v results wait", said, n)
		}
		time.Sleep(3*retryEvery + retryEvery/2) // between two attempts
		f.away.Store(false)
		lacks(t, b, ann, id)
		b.o.Troubled = func() bool { return true } // the store was away just before
		if _, err := b.Get(t.Context(), ann, id); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v: another replica may have the result still", err)
		}
		time.Sleep(2 * retryEvery)
		has(t, b, ann, id, d)
		if n := testutil.ToFloat64(a.o.Metrics.unshared); n != 0 {
			t.Errorf("%v results wait", n)
		}
		cancel()
		<-done
		a.Close()
		b.Close()
	})
}

// Values that were changed, exchanged, cut or put under another key are refused.
func TestPoisonedValues(t *testing.T) {
	var m storetest.Memory
	refused := 0
	s := store.Sealed(&m, keys, func(string, error) { refused++ })
	a := replica(s, limits)
	defer a.Close()
	long := document(strings.Repeat("line\n", maxValue/2))
	id, other := put(t, a, ann, long), put(t, a, bob, document("another"))
	raw := func(key store.Key) []byte {
		got, err := m.Get(t.Context(), key)
		if err != nil || got[0] == nil {
			t.Fatal(key, err)
		}
		return got[0]
	}
	good := raw(valueKey(id, 0))
	for name, poison := range map[string][]byte{
		"of another result": raw(valueKey(other, 0)), "not sealed": first(header{Identity: "ann", Expires: 1 << 40, Size: 1}, []byte("x")), "changed": append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1),
	} {
		if err := m.Put(t.Context(), valueKey(id, 0), poison, time.Hour); err != nil {
			t.Fatal(err)
		}
		b := replica(s, limits)
		lacks(t, b, ann, id)
		lacks(t, b, bob, id)
		b.Close()
		if refused == 0 {
			t.Errorf("a value that is %s was not refused", name)
		}
		refused = 0
	}
	if err := m.Put(t.Context(), valueKey(id, 0), good, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), valueKey(id, 1)); err != nil { // a part is gone
		t.Fatal(err)
	}
	b := replica(s, limits)
	defer b.Close()
	lacks(t, b, ann, id)
	// A replica with other keys reads nothing.
	c := replica(store.Sealed(&m, [][]byte{bytes.Repeat([]byte{8}, 32)}, func(string, error) {}), limits)
	defer c.Close()
	lacks(t, c, bob, other)
}

// Nothing that a store could return makes a replica fail.
func FuzzFirst(f *testing.F) {
	f.Add(first(header{Identity: "ann", Expires: 1 << 40, Size: 5, Sum: sum([]byte("hello"))}, []byte("hello")))
	f.Add([]byte{version, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, part, ok := parseFirst(data); ok {
			h.isFor(ann)
			h.decode(part)
		}
	})
}
