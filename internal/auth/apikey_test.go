package auth

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
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

// A principal may have several keys, so that one can be replaced while clients use it.
func TestKeysOfOnePrincipal(t *testing.T) {
	first, firstDigest := NewKey()
	second, secondDigest := NewKey()
	old := Key{ID: "ci", SHA256: firstDigest, Groups: []string{"old"}, Expires: time.Now().Add(time.Hour)}
	next := Key{ID: "ci-2", Subject: "ci", SHA256: secondDigest, Groups: []string{"new"}}
	a := newAuth(t, Options{Keys: []Key{old, next}})
	was, is := accepted(t, a, request("Authorization", "Bearer "+first)), accepted(t, a, request("Authorization", "Bearer "+second))
	if was.Identity() != is.Identity() || is.Subject != "ci" {
		t.Errorf("the principals are %+v and %+v, want the same one", was, is)
	}
	if p := a.Configured(MethodAPIKey, "ci").Principal(); p.Groups[0] != "new" {
		t.Errorf("the configured principal has the groups %v, want those of the key that expires last", p.Groups)
	}
	if x := a.Examine(t.Context(), second, ""); x.Checks[0].Value != "ci-2" || x.Principal.Subject != "ci" {
		t.Errorf("the examination has %+v", x)
	}
	withdrawn, err := a.SetKeys([]Key{next})
	if err != nil || !slices.Equal(withdrawn, []string{was.Identity()}) {
		t.Errorf("withdrawn: %q, %v", withdrawn, err)
	}
	refused(t, a, request("Authorization", "Bearer "+first), "unknown_key")
	accepted(t, a, request("Authorization", "Bearer "+second))
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
