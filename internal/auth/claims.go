package auth

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mcpgateway/internal/wire"
)

// ClaimPaths say where in a token's claims something stands. Each is the name of a
// claim, or names of members within it with dots between; one that has dots itself
// is found by its whole name first.
type ClaimPaths struct {
	Subject string // a string; "" means sub
	Groups  string // a string, or a list of them; "" means groups
	Scopes  string // a string with spaces between scopes, or a list of them; "" means scope
}

const (
	maxText  = 512  // bytes of a subject, group or scope
	maxTexts = 1000 // groups or scopes
)

func claimAt(claims wire.Value, path string) wire.Value {
	if v := claims.Get(path); v.Exists() {
		return v
	}
	return claims.Get(strings.Split(path, ".")...)
}

// isText tells whether a text may stand in a principal: it is bounded, and has
// nothing in it that could be taken for the end of it.
func isPrincipalText(s string) bool {
	return s != "" && len(s) <= maxText && !strings.ContainsFunc(s, unicode.IsControl)
}

// texts returns a list of strings, or one string taken apart by split. It reports
// false for a value of another form. An absent one is an empty list.
func stringList(v wire.Value, split func(string) []string) ([]string, bool) {
	var all []string
	switch v.Kind() {
	case 0, 'n':
	case '"':
		all = split(v.Str())
	case '[':
		for e := range v.Elements() {
			s, ok := e.Text()
			if !ok {
				return nil, false
			}
			all = append(all, s)
		}
	default:
		return nil, false
	}
	if len(all) > maxTexts || slices.ContainsFunc(all, func(s string) bool { return !isPrincipalText(s) }) {
		return nil, false
	}
	return all, true
}

func whole(s string) []string { return []string{s} }

// moment is a NumericDate (RFC 7519, section 2). It reports false for what is none.
func numericDate(v wire.Value) (time.Time, bool) {
	if v.Kind() != '0' {
		return time.Time{}, false
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	if err != nil || f < 0 || f > 1<<40 {
		return time.Time{}, false
	}
	s, fraction := math.Modf(f)
	return time.Unix(int64(s), int64(fraction*1e9)), true
}

// ImpliedScopes say which scopes come with one ("Servers MUST account for scope
// hierarchies", 2026-07-28, basic/authorization, "Step-Up Authorization Flow").
type ImpliedScopes struct {
	Scope   string
	Implies []string
}

// Imply returns scopes with all that come with them.
func Imply(all []ImpliedScopes, scopes []string) []string { return newHierarchy(all).expand(scopes) }

// hierarchy has for each scope those that come with it.
type hierarchy map[string][]string

func newHierarchy(all []ImpliedScopes) hierarchy {
	h := make(hierarchy)
	for _, s := range all {
		h[s.Scope] = append(h[s.Scope], s.Implies...)
	}
	return h
}

// expand returns scopes with all that come with them, over any number of steps.
func (h hierarchy) expand(scopes []string) []string {
	if len(h) == 0 {
		return scopes
	}
	out := slices.Clone(scopes)
	for i := 0; i < len(out); i++ {
		for _, s := range h[out[i]] {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}
