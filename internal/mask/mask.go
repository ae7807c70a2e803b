package mask

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcpgateway/internal/plaintext"
)

// Placeholder replaces each secret.
const Placeholder = "[redacted]"

// Secrets are the secrets to hide. The zero value hides nothing. The methods may be
// called concurrently. The cost of masking grows with the text, not with the number
// of secrets.
type Secrets struct {
	current atomic.Pointer[matcher]

	mu    sync.Mutex
	known []string // the newest last
}

// maxOldSecrets bounds how many secrets of earlier configurations stay known.
const maxOldSecrets = 1000

// Learn adds the secrets of the next configuration. Each has at least four bytes. The
// earlier secrets stay known: connections that use them may go on for a while, and the
// next configuration may be refused.
func (s *Secrets) Learn(secrets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := slices.DeleteFunc(s.known, func(known string) bool { return slices.Contains(secrets, known) })
	s.known = slices.Concat(old[max(0, len(old)-maxOldSecrets):], secrets)
	s.current.Store(newMatcher(s.known))
}

// Mask returns text with each secret replaced.
func (s *Secrets) Mask(text string) string {
	if m := s.current.Load(); m != nil {
		return m.mask(text)
	}
	return text
}

// matcher replaces secrets. Most texts contain none, so a table of the secrets' first
// bytes rules those out without allocating.
type matcher struct {
	replacer *strings.Replacer
	prefixes [1 << 16 / 64]uint64 // one bit for each hash of a prefix, see prefixBit
}

// prefixBytes is the length of a hashed prefix. No secret is shorter.
const prefixBytes = 4

// prefixBit returns the bit that stands for the first bytes of s.
func prefixBit(s string) (word, bit uint32) {
	h := (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 2654435761 >> 16
	return h / 64, h % 64
}

func (m *matcher) mask(s string) string {
	for i := 0; i+prefixBytes <= len(s); i++ {
		if word, bit := prefixBit(s[i:]); m.prefixes[word]>>bit&1 != 0 {
			return m.replacer.Replace(s)
		}
	}
	return s
}

// newMatcher returns a matcher for the secrets in all their forms. It returns nil if there are
// no secrets.
func newMatcher(secrets []string) *matcher {
	if len(secrets) == 0 {
		return nil
	}
	var forms []string
	for _, s := range secrets {
		forms = append(forms, plaintext.Forms(s)...)
	}
	// If two forms begin at the same place, the replacer takes the first one listed.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	m := &matcher{}
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, Placeholder)
		word, bit := prefixBit(f)
		m.prefixes[word] |= 1 << bit
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}
