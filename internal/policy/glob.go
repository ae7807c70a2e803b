package policy

import "strings"

// glob is a pattern cut at its asterisks. One without any has a single part.
type glob struct{ parts []string }

func compile(pattern string) glob { return glob{strings.Split(pattern, "*")} }

// match reports whether the pattern covers the whole of s. Taking the leftmost
// place for every part is enough, since only asterisks stand between them; so
// the time is linear in s for each part, whatever the pattern.
func (g glob) match(s string) bool {
	first, last := g.parts[0], len(g.parts)-1
	if last == 0 {
		return s == first
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for _, part := range g.parts[1:last] {
		_, after, found := strings.Cut(s, part)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, g.parts[last])
}
