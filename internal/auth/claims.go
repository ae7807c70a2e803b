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

// ClaimPaths name claims of a token. A path is the name of a claim, or a list of nested
// member names with dots between them. A claim whose name contains dots is found first.
type ClaimPaths struct {
	Subject string // a string; "" means sub
	Groups  string // a string or an array of strings; "" means groups
	Scopes  string // a string with spaces between scopes, or an array of strings; "" means scope
}

const (
	maxText  = 512  // bytes of a subject, group or scope
	maxTexts = 1000 // groups or scopes
)

// isPrincipalText reports whether a text may be part of a principal: it is bounded and
// contains no control character, which could end a field of [call.Principal.Key].
func isPrincipalText(s string) bool {
	return s != "" && len(s) <= maxText && !strings.ContainsFunc(s, unicode.IsControl)
}

// stringList returns the strings of an array, or of one string that split splits. An
// absent value is an empty list. It reports false for any other value.
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

// numericDate parses a NumericDate (RFC 7519, section 2). It reports false for any other
// value.
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

// ImpliedScopes lists the scopes that a scope implies ("Servers MUST account for scope
// hierarchies", 2026-07-28, basic/authorization, "Step-Up Authorization Flow").
type ImpliedScopes struct {
	Scope   string
	Implies []string
}

// Imply returns scopes and all scopes that they imply.
func Imply(all []ImpliedScopes, scopes []string) []string { return newHierarchy(all).expand(scopes) }

// hierarchy maps a scope to the scopes that it implies.
type hierarchy map[string][]string

func newHierarchy(all []ImpliedScopes) hierarchy {
	h := make(hierarchy)
	for _, s := range all {
		h[s.Scope] = append(h[s.Scope], s.Implies...)
	}
	return h
}

// expand returns scopes and all scopes that they imply, directly or not.
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
