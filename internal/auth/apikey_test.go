package auth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	changes, err := a.SetKeys([]Key{{ID: "eve", SHA256: fmt.Sprintf("%x", was.digest)}, {ID: "new", SHA256: digest}})
	if err != nil || len(changes.Revoked) != 1000 || !changes.Revoked.Has(was.principal) || len(changes.Changed)+len(changes.Shortened) > 0 {
		t.Errorf("%d revoked, %v", len(changes.Revoked), err)
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
	changes, err := a.SetKeys([]Key{next})
	if err != nil || !changes.Revoked.Has(was) || changes.Revoked.Has(is) || !changes.HasSubject(is) {
		t.Errorf("changes: %v, %v", changes, err)
	}
	refused(t, a, request("Authorization", "Bearer "+first), "unknown_key")
	accepted(t, a, request("Authorization", "Bearer "+second))
}

// SetKeys says what it takes from a key. A key that gets another id keeps its rights, and what began
// under the former id can still be found.
func TestKeyChanges(t *testing.T) {
	_, digest := NewKey()
	_, other := NewKey()
	now := time.Now()
	key := func(id string, until time.Duration, groups ...string) Key {
		k := Key{ID: id, Subject: "ci", SHA256: digest, Groups: groups}
		if until != 0 {
			k.Expires = now.Add(until)
		}
		return k
	}
	for name, tt := range map[string]struct {
		before, after Key
		want          string
	}{
		"the same":                    {key("a", 0), key("a", 0), ""},
		"another id":                  {key("a", 0), key("b", 0), ""},
		"expires in the future":       {key("a", 0), key("a", time.Hour), "shortened"},
		"expires sooner":              {key("a", 2*time.Hour), key("a", time.Hour), "shortened"},
		"expires later":               {key("a", time.Hour), key("a", 2*time.Hour), ""},
		"expires no longer":           {key("a", time.Hour), key("a", 0), ""},
		"expires in the past":         {key("a", 0), key("a", -time.Hour), "revoked"},
		"had expired":                 {key("a", -time.Hour), key("a", -time.Hour), ""},
		"groups":                      {key("a", 0), key("a", 0, "staff"), "changed"},
		"groups, expires sooner":      {key("a", 0), key("a", time.Hour, "staff"), "changed"},
		"groups, expires in the past": {key("a", 0), key("a", -time.Hour, "staff"), "revoked"},
		"another digest":              {key("a", 0), Key{ID: "a", Subject: "ci", SHA256: other}, "revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuth(t, Options{Keys: []Key{tt.before}, Now: func() time.Time { return now }})
			was := a.Configured(MethodAPIKey, "ci").Principal()
			got := func(after ...Key) (kinds []string) {
				t.Helper()
				c, err := a.SetKeys(after)
				if err != nil {
					t.Fatal(err)
				}
				for kind, set := range map[string]KeySet{"revoked": c.Revoked, "changed": c.Changed, "shortened": c.Shortened} {
					if set.Has(was) {
						kinds = append(kinds, kind)
					}
				}
				return kinds
			}
			if kinds := got(tt.after); strings.Join(kinds, " ") != tt.want {
				t.Errorf("%q, want %q", kinds, tt.want)
			}
			if kinds := got(); (tt.want == "" || tt.want == "shortened") && !slices.Equal(kinds, []string{"revoked"}) {
				t.Errorf("removed: %q", kinds)
			}
		})
	}
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
