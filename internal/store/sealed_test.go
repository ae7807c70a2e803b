package store_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/seal"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, seal.KeySize) }

// refusals collects what a sealed store refuses.
type refusals struct {
	mu  sync.Mutex
	all []error
}

func (r *refusals) note(_ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

// take returns what was refused since the last time.
func (r *refusals) take() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func never(t *testing.T) func(string, error) {
	return func(kind string, err error) { t.Errorf("something of kind %q was refused: %v", kind, err) }
}

func TestContractOfSealed(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.Sealed(new(storetest.Memory), [][]byte{key(1)}, never(t))
	})
}

func TestSealedKeepsNothingInClear(t *testing.T) {
	raw, k, ctx := new(storetest.Memory), store.Key{Kind: "kind", Name: "name"}, t.Context()
	s := store.Sealed(raw, [][]byte{key(1)}, never(t))
	_, errField := s.PutField(ctx, k, "field", []byte("secret"), 5, time.Hour)
	if err := errors.Join(s.Put(ctx, k, []byte("secret"), time.Hour), errField, s.Append(ctx, k, 5, time.Hour, []byte("secret"))); err != nil {
		t.Fatal(err)
	}
	values, err1 := raw.Get(ctx, k)
	fields, err2 := raw.Fields(ctx, k)
	entries, err3 := raw.Read(ctx, k, "", 5, 0)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, kept := range [][]byte{values[0], fields["field"], entries[0].Data} {
		if len(kept) < len("secret") || bytes.Contains(kept, []byte("secret")) {
			t.Errorf("the store has %q", kept)
		}
	}
}

// Values that somebody else has written, changed or moved count as absent, and are reported.
func TestSealedRefuses(t *testing.T) {
	ctx, here, there := t.Context(), store.Key{Kind: "kind", Name: "here"}, store.Key{Kind: "kind", Name: "there"}
	otherKind := store.Key{Kind: "kin", Name: "dhere"}
	for name, tc := range map[string]struct {
		poison func(good []byte) []byte
		from   store.Key // where the good one was made
		keys   [][]byte  // of the one who made it
		want   error
	}{
		"nothing wrong":                {from: here, keys: [][]byte{key(1)}},
		"sealed with the former key":   {from: here, keys: [][]byte{key(2)}},
		"moved from another key":       {from: there, keys: [][]byte{key(1)}, want: seal.ErrTampered},
		"moved from another kind":      {from: otherKind, keys: [][]byte{key(1)}, want: seal.ErrTampered},
		"of another deployment":        {from: here, keys: [][]byte{key(3)}, want: seal.ErrUnknownKey},
		"one bit changed":              {from: here, keys: [][]byte{key(1)}, poison: func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, want: seal.ErrTampered},
		"cut":                          {from: here, keys: [][]byte{key(1)}, poison: func(b []byte) []byte { return b[:10] }, want: seal.ErrMalformed},
		"empty":                        {from: here, keys: [][]byte{key(1)}, poison: func([]byte) []byte { return []byte{} }, want: seal.ErrMalformed},
		"in clear text":                {from: here, keys: [][]byte{key(1)}, poison: func([]byte) []byte { return []byte("content") }, want: seal.ErrMalformed},
		"a session id of our own keys": {from: here, keys: [][]byte{key(1)}, poison: func([]byte) []byte { return []byte(seal.New("session", key(1)).Seal('s', []byte("content"))) }, want: seal.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			raw, made, refused := new(storetest.Memory), new(storetest.Memory), &refusals{}
			maker := store.Sealed(made, tc.keys, never(t))
			_, errField := maker.PutField(ctx, tc.from, "field", []byte("content"), 5, time.Hour)
			if err := errors.Join(maker.Put(ctx, tc.from, []byte("content"), time.Hour), errField, maker.Append(ctx, tc.from, 5, time.Hour, []byte("content"))); err != nil {
				t.Fatal(err)
			}
			values, _ := made.Get(ctx, tc.from)
			fields, _ := made.Fields(ctx, tc.from)
			entries, _ := made.Read(ctx, tc.from, "", 5, 0)
			for _, p := range []*[]byte{&values[0], &entries[0].Data} {
				if tc.poison != nil {
					*p = tc.poison(*p)
				}
			}
			field := fields["field"]
			if tc.poison != nil {
				field = tc.poison(field)
			}
			_ = raw.Put(ctx, here, values[0], time.Hour)
			_, _ = raw.PutField(ctx, here, "field", field, 5, time.Hour)
			_ = raw.Append(ctx, here, 5, time.Hour, entries[0].Data)

			s := store.Sealed(raw, [][]byte{key(1), key(2)}, refused.note)
			check := func(what string, got []byte, err error) {
				t.Helper()
				errs := refused.take()
				switch {
				case err != nil:
					t.Errorf("%s: %v", what, err)
				case tc.want == nil && (string(got) != "content" || len(errs) > 0):
					t.Errorf("%s: got %q, refused %v", what, got, errs)
				case tc.want != nil && (got != nil || !slices.Equal(errs, []error{tc.want})):
					t.Errorf("%s: got %q, refused %v, want %v", what, got, errs, tc.want)
				}
			}
			out, err := s.Get(ctx, here)
			check("a value", out[0], err)
			fs, err := s.Fields(ctx, here)
			check("a field", fs["field"], err)
			es, err := s.Read(ctx, here, "", 5, 0)
			check("an entry", append(es, store.Entry{})[0].Data, err)
			if is, err := s.PutNew(ctx, here, nil, time.Hour); is || err != nil {
				t.Errorf("a key with something in it is new: %v, %v", is, err)
			}
			taken, err := s.Take(ctx, here)
			check("a value that was taken", taken, err)
		})
	}
}

// A field, a value and an entry of one key are not the same.
func TestSealedKnowsTypes(t *testing.T) {
	ctx, raw, k, refused := t.Context(), new(storetest.Memory), store.Key{Kind: "kind", Name: "name"}, &refusals{}
	s := store.Sealed(raw, [][]byte{key(1)}, refused.note)
	if _, err := s.PutField(ctx, k, "a", []byte("x"), 5, time.Hour); err != nil {
		t.Fatal(err)
	}
	fields, _ := raw.Fields(ctx, k)
	_, _ = raw.PutField(ctx, k, "b", fields["a"], 5, time.Hour)
	_ = raw.Put(ctx, k, fields["a"], time.Hour)
	_ = raw.Append(ctx, k, 5, time.Hour, fields["a"])
	if fs, err := s.Fields(ctx, k); err != nil || !reflect.DeepEqual(fs, map[string][]byte{"a": []byte("x")}) {
		t.Errorf("the fields are %q, %v", fs, err)
	}
	if out, err := s.Get(ctx, k); err != nil || out[0] != nil {
		t.Errorf("a field is a value too: %q, %v", out, err)
	}
	if es, err := s.Read(ctx, k, "", 5, 0); err != nil || len(es) > 0 {
		t.Errorf("a field is an entry too: %q, %v", es, err)
	}
	if n := len(refused.take()); n != 3 {
		t.Errorf("%d things were refused, want 3", n)
	}
}

// Entries that are refused keep nobody from those behind them, and no read ends early because of them.
func TestSealedPassesOverEntries(t *testing.T) {
	ctx, raw, k, refused := t.Context(), new(storetest.Memory), store.Key{Kind: "kind", Name: "name"}, &refusals{}
	s := store.Sealed(raw, [][]byte{key(1)}, refused.note)
	for range 5 {
		_ = raw.Append(ctx, k, 100, time.Hour, []byte("poison"))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := s.Append(ctx, k, 100, time.Hour, []byte("good")); err != nil {
			t.Error(err)
		}
	})
	if es, err := s.Read(ctx, k, "", 2, time.Minute); err != nil || len(es) != 1 || string(es[0].Data) != "good" {
		t.Errorf("got %q, %v", es, err)
	}
	if n := len(refused.take()); n != 5 {
		t.Errorf("%d entries were refused, want 5", n)
	}
}
