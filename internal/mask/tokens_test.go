package mask

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Tokens are hidden in the forms of secrets, beside those of the configuration, which may be a part of one.
func TestTokensAreHidden(t *testing.T) {
	s := &Secrets{}
	s.LearnToken("a/token+of=1")
	s.LearnToken("eyJhbGciOiJFUzI1NiJ9.e30.first-signature")
	s.LearnToken("eyJhbGciOiJFUzI1NiJ9.e30.other-signature")
	s.LearnToken("short")
	s.Learn([]string{"hunter22", "e30.other"})
	for text, want := range map[string]string{
		"bad auth Bearer a/token+of=1":                             "bad auth Bearer [redacted]",
		"?t=a%2Ftoken%2Bof%3D1&u=a%2Ftoken+of=1":                   "?t=[redacted]&u=[redacted]",
		"eyJhbGciOiJFUzI1NiJ9.e30.other-signature, hunter22":       "[redacted], [redacted]",
		"eyJhbGciOiJFUzI1NiJ9.e30.first-signaturehunter22":         "[redacted][redacted]",
		"eyJhbGciOiJFUzI1NiJ9.e30.third-signature is of a shorter": "eyJhbGciOiJFUzI1NiJ9.e30.third-signature is of a shorter",
	} {
		if got := s.Mask(text); got != want {
			t.Errorf("Mask(%q) = %q, want %q", text, got, want)
		}
	}
}

// The latest tokens stay known, and others are forgotten. A token that is learned again is a late one.
func TestKnownTokensAreBounded(t *testing.T) {
	s := &Secrets{}
	for i := range 2*maxTokens + 1000 {
		s.LearnToken(fmt.Sprintf("token-%06d", i))
		s.LearnToken("in-use-all-the-time")
	}
	got := s.Mask(fmt.Sprintf("token-%06d in-use-all-the-time token-000001", 2*maxTokens+999))
	if got != "[redacted] [redacted] token-000001" {
		t.Errorf("masked text: %q", got)
	}
	huge := strings.Repeat("x", 1<<20)
	for i := range 3 * maxTokenBytes >> 20 {
		s.LearnToken(fmt.Sprintf("%s%06d", huge, i))
	}
	if n := s.younger.Load().bytes + s.older.Load().bytes; n > 2*maxTokenBytes+2<<20 {
		t.Errorf("%d bytes of tokens are known", n)
	}
}

func TestKeysAreHiddenByTheirForm(t *testing.T) {
	s := &Secrets{KeyPrefix: "gwkey_"}
	for text, want := range map[string]string{
		"/mcp/gwkey_GAD3ABCDEFGH2345/x gwkey_GAD3ABCDEFGH2345": "/mcp/gwkey_[redacted]/x gwkey_[redacted]",
		"gwkey_GAD3ABCDEF…":                  "gwkey_[redacted]…", // cut
		"keys begin with gwkey_ and letters": "keys begin with gwkey_ and letters",
	} {
		if got := s.Mask(text); got != want {
			t.Errorf("Mask(%q) = %q, want %q", text, got, want)
		}
	}
}

// A token that was learned before a text came is hidden in it, also while others are learned.
func TestTokensAreLearnedConcurrently(t *testing.T) {
	s := &Secrets{}
	for i := range maxTokens - 1000 { // an index becomes full
		s.LearnToken(fmt.Sprintf("token-%06d", i))
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				token := fmt.Sprintf("token-%d-%06d", worker, i)
				s.LearnToken(token)
				if got := s.Mask(token); got != Placeholder {
					t.Errorf("got %q", got)
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkMask(b *testing.B) {
	const text = "upstream search: the server answered with error -32602: the argument query has the wrong type, it must be a text"
	for _, tokens := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			s := &Secrets{KeyPrefix: "gwkey_"}
			s.Learn([]string{"topsecretvalue", "another-secret", "a \"quoted\" one"})
			for i := range tokens {
				s.LearnToken(fmt.Sprintf("eyJhbGciOiJFUzI1NiJ9.%d.%x", i, i*i*2654435761))
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Mask(text)
			}
		})
	}
}
