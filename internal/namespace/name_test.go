package namespace

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

var publicForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// naming returns a Naming, and fails the test if New refuses it.
func naming(t testing.TB, upstream, prefix string) *Naming {
	t.Helper()
	s, err := New(upstream, prefix, "__")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewRefuses(t *testing.T) {
	tests := []struct{ name, upstream, prefix, separator, want string }{
		{"upper case", "Files", "files", "__", `upstream name "Files": must begin with a lower-case letter and have at most 32 of a-z 0-9 -`},
		{"too long", strings.Repeat("a", 33), "", "__", `upstream name "` + strings.Repeat("a", 33) + `": must begin with a lower-case letter and have at most 32 of a-z 0-9 -`},
		{"prefix with underscore", "files", "my_files", "__", `prefix "my_files" of upstream files: must be empty, or begin with a lower-case letter and have at most 32 of a-z 0-9 -`},
		{"no separator", "files", "files", "", `separator "": must be 1 to 4 of A-Z a-z 0-9 _ -`},
		{"separator in the prefix", "my-files", "my-files", "-", `prefix "my-files" of upstream my-files: cannot be told from what follows, with the separator "-"`},
		{"separator begins in the prefix", "a", "a-", "--", `prefix "a-" of upstream a: cannot be told from what follows, with the separator "--"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.upstream, tt.prefix, tt.separator)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("abcdefghij", 7)
	tests := []struct {
		name, prefix, native, want string
		plain                      bool
	}{
		{"plain", "files", "read_file", "files__read_file", true},
		{"no prefix", "", "read_file", "read_file", true},
		{"just fits", "files", long[:57], "files__" + long[:57], true},
		{"one too long", "files", long[:58], "files__" + long[:43] + "_h883bdfc779ab", false},
		{"dots", "files", "a.b.c", "files__a_b_c_h845e30448809", false},
		{"not ASCII", "files", "größe  x", "files__gr_e_x_h4d203fe6201f", false},
		{"no prefix, ill-formed", "", "a b", "a_b_hc8687a08aa5d", false},
		{"looks shortened", "", "x_h0123456789ab", "x_h0123456789ab_h04b9e1ca43ee", false},
		{"ends in a word", "", "list_organization", "list_organization", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, plain := naming(t, "files", tt.prefix).Name(tt.native)
			if got != tt.want || plain != tt.plain {
				t.Errorf("%q: got %q, %v; want %q, %v", tt.native, got, plain, tt.want, tt.plain)
			}
		})
	}
}

// Public names are valid and unique, and depend only on the naming and the native name, for
// any native names. The generator prefers names that resemble other names.
func TestNamesNeverCollide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	namings := []*Naming{naming(t, "a", "a"), naming(t, "a-b", "a-b"), naming(t, "b", "b"), naming(t, "long", strings.Repeat("p", 32))}
	pieces := []string{"a", "b", "__", "_", "-", "_h", "0123456789ab", "é", ".", " ", strings.Repeat("x", 30), "read"}
	type item struct{ upstream, native string }
	seen := make(map[string]item)
	for range 20000 {
		s := namings[rng.IntN(len(namings))]
		var native string
		for range rng.IntN(6) {
			native += pieces[rng.IntN(len(pieces))]
		}
		if rng.IntN(4) == 0 { // the public name of another native name
			native = strings.TrimPrefix(s.HashedName(native), s.NamePrefix())
		}
		public, _ := s.Name(native)
		if !publicForm.MatchString(public) && native != "" {
			t.Fatalf("%q becomes %q, which is not a valid public name", native, public)
		}
		it := item{s.Upstream(), native}
		if other, ok := seen[public]; ok && other != it {
			t.Fatalf("%v and %v are both %q", other, it, public)
		}
		seen[public] = it
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"", "read_file", "a b", "x_h0123456789ab", strings.Repeat("é", 100), "\xff"} {
		f.Add(s, "read_file")
	}
	prefixed, open := naming(f, "files", "files"), naming(f, "files", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, s := range []*Naming{prefixed, open} {
			pa, plain := s.Name(a)
			pb, _ := s.Name(b)
			if !publicForm.MatchString(pa) {
				t.Errorf("%q becomes %q", a, pa)
			}
			if a != b && pa == pb {
				t.Errorf("%q and %q both become %q", a, b, pa)
			}
			if plain != (pa == s.NamePrefix()+a) {
				t.Errorf("%q becomes %q: plain is %v", a, pa, plain)
			}
		}
	})
}
