package mask

import (
	"cmp"
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
	// KeyPrefix begins credentials that are hidden by their form: the letters and digits after it are hidden, also
	// those of no known key. "" means none. It must not change after the first use.
	KeyPrefix string

	configured atomic.Pointer[index]
	// The tokens of the gateway are in two indexes. When the younger one is full it becomes the older one, whose
	// tokens are forgotten: tokens are replaced all the time, and some day nobody uses the old ones.
	younger, older atomic.Pointer[index]

	mu    sync.Mutex
	known []string // of the configurations, the newest last
}

const (
	// maxOldSecrets bounds how many secrets of earlier configurations stay known.
	maxOldSecrets = 1000
	// maxTokens and maxTokenBytes bound each of the two indexes of tokens.
	maxTokens     = 16_384
	maxTokenBytes = 16 << 20
	// minToken is the length in bytes from which a token is hidden: shorter ones occur in harmless text by chance.
	minToken = 8
	// minKey is the number of letters and digits after the KeyPrefix from which they are hidden.
	minKey = 8
)

// Learn adds the secrets of the next configuration. Each has at least four bytes. The
// earlier secrets stay known: connections that use them may go on for a while, and the
// next configuration may be refused.
func (s *Secrets) Learn(secrets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := slices.DeleteFunc(s.known, func(known string) bool { return slices.Contains(secrets, known) })
	s.known = slices.Concat(old[max(0, len(old)-maxOldSecrets):], secrets)
	if len(s.known) == 0 {
		return
	}
	all := newIndex()
	for _, secret := range s.known {
		all.addForms(secret)
	}
	s.configured.Store(all)
}

// LearnToken adds a token that the gateway has obtained for an upstream. The latest 16,384 tokens at least stay known.
func (s *Secrets) LearnToken(token string) {
	if len(token) < minToken {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	into := s.younger.Load()
	switch {
	case into != nil && into.contains(token):
		return
	case into == nil || into.count >= maxTokens || into.bytes >= maxTokenBytes:
		s.older.Store(into) // first, so that Mask finds each token in one of both
		into = newIndex()
		s.younger.Store(into)
	}
	into.addForms(token)
}

// Mask returns text with each secret replaced.
func (s *Secrets) Mask(text string) string {
	var found []span // allocated for the first secret
	for _, secrets := range [...]*atomic.Pointer[index]{&s.configured, &s.younger, &s.older} {
		if x := secrets.Load(); x != nil {
			found = x.find(text, found)
		}
	}
	if found = s.findKeys(text, found); found == nil {
		return text
	}
	return replace(text, found)
}

// findKeys appends the places of what follows KeyPrefix.
func (s *Secrets) findKeys(text string, found []span) []span {
	if s.KeyPrefix == "" {
		return found
	}
	for from := 0; ; {
		i := strings.Index(text[from:], s.KeyPrefix)
		if i < 0 {
			return found
		}
		from += i + len(s.KeyPrefix)
		to := from
		for to < len(text) && isAlphanumeric(text[to]) {
			to++
		}
		if to-from >= minKey {
			found = append(found, span{from, to})
		}
		from = to
	}
}

func isAlphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// replace returns a text with a placeholder for each of its parts. Parts that overlap get one.
func replace(text string, parts []span) string {
	slices.SortFunc(parts, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var out strings.Builder
	end := 0
	for _, p := range parts {
		if p.from >= end {
			out.WriteString(text[end:p.from])
			out.WriteString(Placeholder)
		}
		end = max(end, p.to)
	}
	out.WriteString(text[end:])
	return out.String()
}

// addForms adds a secret in all forms in which a program may print it.
func (x *index) addForms(secret string) {
	for _, form := range plaintext.Forms(secret) {
		x.add(form)
	}
}
