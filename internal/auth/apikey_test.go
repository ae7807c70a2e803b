package auth

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// manyKeys returns an authenticator with n API keys, and a request with one of them.
func manyKeys(t testing.TB, n int) (*Authenticator, *http.Request) {
	t.Helper()
	key, digest := NewKey()
	keys := []Key{{ID: "ann", SHA256: digest, Groups: []string{"g"}}}
	for i := range n - 1 {
		_, other := NewKey()
		keys = append(keys, Key{ID: fmt.Sprint("other ", i), SHA256: other})
	}
	a, err := New(Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	return a, r
}

func TestOneOfManyKeys(t *testing.T) {
	a, r := manyKeys(t, 1000)
	if p := accepted(t, a, r); p.Subject != "ann" {
		t.Errorf("authenticated as %q", p.Subject)
	}
	unknown, digest := NewKey()
	refused(t, a, request("Authorization", "Bearer "+unknown), "unknown_key")
	// A key that is another principal's from now on is withdrawn, and so is a missing one.
	was := *a.keys.Load().find(firstDigest(a))
	withdrawn, err := a.SetKeys([]Key{{ID: "eve", SHA256: fmt.Sprintf("%x", was.digest)}, {ID: "new", SHA256: digest}})
	if err != nil || len(withdrawn) != 1000 || !slices.Contains(withdrawn, was.principal.Key()) || !slices.IsSorted(withdrawn) {
		t.Errorf("%d withdrawn, %v", len(withdrawn), err)
	}
	accepted(t, a, request("Authorization", "Bearer "+unknown))
}

// firstDigest returns the digest of some key.
func firstDigest(a *Authenticator) *[32]byte {
	for _, k := range a.keys.Load().all {
		return &k.digest
	}
	return nil
}

// Authentication with an API key allocates nothing.
func TestKeysAllocateNothing(t *testing.T) {
	a, r := manyKeys(t, 10)
	if n := testing.AllocsPerRun(100, func() { accepted(t, a, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkKeys(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		a, r := manyKeys(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := authenticate(a, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
