package storetest

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
)

// ttl is longer than any test.
const ttl = 10 * time.Minute

// Run runs all tests on stores that open returns. Each test uses names of its own, so that open may return
// the same store again, also one that has been used before.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"Values", values},
		{"BinaryValues", binaryValues},
		{"ValuesEnd", valuesEnd},
		{"OneOfManyPutsNew", onePutsNew},
		{"OneOfManyTakes", oneTakes},
		{"KindsAreApart", kinds},
		{"Fields", fields},
		{"FieldsAreBounded", boundedFields},
		{"Logs", logs},
		{"LogsAreBounded", boundedLogs},
		{"ReadWaits", readWaits},
		{"ReadEndsWithItsContext", readEnds},
		{"ManyReadsWait", manyReads},
		{"Rates", rates},
		{"Concurrency", concurrency},
		{"LimitsTogether", together},
		{"LeasesEnd", leases},
		{"OneOfManyAcquires", oneAcquires},
		{"LimitsChange", changedLimits},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, open(t)) })
	}
}

// unique returns a key that no test has used.
func unique(kind string) store.Key { return store.Key{Kind: kind, Name: rand.Text()} }

// ok fails the test at an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get returns the value of a key.
func get(t *testing.T, s store.Store, key store.Key) []byte {
	t.Helper()
	out, err := s.Get(t.Context(), key)
	ok(t, err)
	if len(out) != 1 {
		t.Fatalf("%d values for one key", len(out))
	}
	return out[0]
}

func values(t *testing.T, s store.Store) {
	ctx, a, b := t.Context(), unique("value"), unique("value")
	if v := get(t, s, a); v != nil {
		t.Errorf("a key that was never used has %q", v)
	}
	ok(t, s.Put(ctx, a, []byte("first"), ttl))
	ok(t, s.Put(ctx, a, []byte("second"), ttl))
	out, err := s.Get(ctx, b, a, b, a)
	if want := [][]byte{nil, []byte("second"), nil, []byte("second")}; err != nil || !reflect.DeepEqual(out, want) {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	if out, err := s.Get(ctx); err != nil || len(out) != 0 {
		t.Errorf("no keys have %q, %v", out, err)
	}
	if is, err := s.PutNew(ctx, a, []byte("third"), ttl); err != nil || is {
		t.Errorf("a key with a value is new: %v, %v", is, err)
	}
	if v, err := s.Take(ctx, a); err != nil || string(v) != "second" {
		t.Errorf("took %q, %v", v, err)
	}
	if v, err := s.Take(ctx, a); err != nil || v != nil {
		t.Errorf("took %q again, %v", v, err)
	}
	if is, err := s.PutNew(ctx, a, []byte("fourth"), ttl); err != nil || !is {
		t.Errorf("a key without a value is not new: %v, %v", is, err)
	}
	ok(t, s.Put(ctx, b, []byte("other"), ttl))
	ok(t, s.Delete(ctx, a, unique("value"), b))
	if out, err := s.Get(ctx, a, b); err != nil || out[0] != nil || out[1] != nil {
		t.Errorf("deleted values are still there: %q, %v", out, err)
	}
}

func binaryValues(t *testing.T, s store.Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, value := range [][]byte{{}, all, make([]byte, 1<<20)} {
		key, log := unique("value"), unique("log")
		ok(t, s.Put(t.Context(), key, value, ttl))
		if v := get(t, s, key); v == nil || !reflect.DeepEqual(v, value) {
			t.Errorf("%d bytes came back as %d (nil: %v)", len(value), len(v), v == nil)
		}
		ok(t, s.Append(t.Context(), log, 10, ttl, value))
		if es := read(t, s, log, ""); len(es) != 1 || !reflect.DeepEqual(es[0].Data, value) {
			t.Errorf("%d bytes came back from a log as %d entries", len(value), len(es))
		}
		v, err := s.Take(t.Context(), key)
		if err != nil || v == nil || !reflect.DeepEqual(v, value) {
			t.Errorf("%d bytes were taken as %d (nil: %v), %v", len(value), len(v), v == nil, err)
		}
	}
	odd := store.Key{Kind: "value", Name: "{a} b:c\x00\n*" + rand.Text()}
	ok(t, s.Put(t.Context(), odd, []byte("x"), ttl))
	if v := get(t, s, odd); string(v) != "x" {
		t.Errorf("a key with odd characters has %q", v)
	}
}

func valuesEnd(t *testing.T, s store.Store) {
	ctx, value, field, log := t.Context(), unique("value"), unique("fields"), unique("log")
	const short = 20 * time.Millisecond
	ok(t, s.Put(ctx, value, []byte("x"), short))
	_, err := s.PutField(ctx, field, "name", []byte("x"), 5, short)
	ok(t, err)
	ok(t, s.Append(ctx, log, 5, short, []byte("x")))
	polltest.Until(t, "all has ended", func() bool {
		fs, err := s.Fields(ctx, field)
		ok(t, err)
		return get(t, s, value) == nil && len(fs) == 0 && len(read(t, s, log, "")) == 0
	})
	if is, err := s.PutNew(ctx, value, []byte("y"), ttl); err != nil || !is {
		t.Errorf("a value that has ended is not new: %v, %v", is, err)
	}
	ok(t, s.Put(ctx, value, []byte("z"), time.Nanosecond)) // less than the least
}

// many calls f from many goroutines at once, and returns how often it was true.
func many(f func(i int) bool) int {
	var wg sync.WaitGroup
	var n atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			if f(i) {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

func onePutsNew(t *testing.T, s store.Store) {
	key := unique("value")
	if n := many(func(i int) bool {
		is, err := s.PutNew(t.Context(), key, fmt.Append(nil, i), ttl)
		if err != nil {
			t.Error(err)
		}
		return is
	}); n != 1 {
		t.Errorf("%d callers were the first", n)
	}
}

func oneTakes(t *testing.T, s store.Store) {
	key := unique("value")
	ok(t, s.Put(t.Context(), key, []byte("x"), ttl))
	if n := many(func(int) bool {
		v, err := s.Take(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		return v != nil
	}); n != 1 {
		t.Errorf("%d callers took the value", n)
	}
}

func kinds(t *testing.T, s store.Store) {
	a := unique("value")
	b := store.Key{Kind: "other", Name: a.Name}
	ok(t, s.Put(t.Context(), a, []byte("x"), ttl))
	if v := get(t, s, b); v != nil {
		t.Errorf("another kind has %q", v)
	}
}

func fields(t *testing.T, s store.Store) {
	ctx, key := t.Context(), unique("fields")
	put := func(field, value string, max int) bool {
		t.Helper()
		kept, err := s.PutField(ctx, key, field, []byte(value), max, ttl)
		ok(t, err)
		return kept
	}
	all := func() map[string]string {
		t.Helper()
		fs, err := s.Fields(ctx, key)
		ok(t, err)
		out := map[string]string{}
		for k, v := range fs {
			out[k] = string(v)
		}
		return out
	}
	if len(all()) != 0 {
		t.Errorf("a key that was never used has %v", all())
	}
	ok(t, s.DeleteField(ctx, key, "a"))
	put("a", "1", 2)
	put("uri:file:///é", "", 2)
	if put("c", "3", 2) {
		t.Error("a third field was kept where two may be")
	}
	if !put("a", "4", 2) || !put("a", "5", 1) {
		t.Error("a field that is there was not replaced")
	}
	if put("a", "6", 0) {
		t.Error("a field was kept where none may be")
	}
	if got, want := all(), map[string]string{"a": "5", "uri:file:///é": ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("the fields are %q, want %q", got, want)
	}
	ok(t, s.DeleteField(ctx, key, "a"))
	if !put("c", "3", 2) {
		t.Error("a field was refused though another was deleted")
	}
	ok(t, s.Delete(ctx, key))
	if len(all()) != 0 {
		t.Errorf("deleted fields are still there: %v", all())
	}
}

func boundedFields(t *testing.T, s store.Store) {
	key := unique("fields")
	if n := many(func(i int) bool {
		kept, err := s.PutField(t.Context(), key, fmt.Sprint(i), nil, 3, ttl)
		if err != nil {
			t.Error(err)
		}
		return kept
	}); n != 3 {
		t.Errorf("%d fields were kept, want 3", n)
	}
}

// read returns the entries after an id, without waiting.
func read(t *testing.T, s store.Store, key store.Key, after string) []store.Entry {
	t.Helper()
	es, err := s.Read(t.Context(), key, after, 1000, 0)
	ok(t, err)
	return es
}

// data joins the data of entries.
func data(es []store.Entry) string {
	out := ""
	for _, e := range es {
		out += string(e.Data)
	}
	return out
}
