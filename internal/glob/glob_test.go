package glob

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true},
		{"a*", "a", true}, {"a*", "ba", false}, {"*a", "ba", true}, {"a*b*c", "aXbXc", true}, {"a*b*c", "acb", false},
		{"a*a", "a", false}, {"*ab*ab", "ab", false}, {"*ab*ab", "abab", true}, {"?", "a", false}, {"[a]", "a", false},
		{"read_*", "read_", true}, {"read_*", "unread_file", false}, {"file:///*/b/*", "file:///a/b/", true}, {"a*b*c", "abcbc", true}, {"**", "x", true}, {"a?c", "a?c", true},
		{"{a,b}", "a", false}, {`a\*`, `a\b`, true}, {"Read", "read", false},
	} {
		if got := Compile(c.pattern).Match(c.text); got != c.want {
			t.Errorf("%q covers %q: %v", c.pattern, c.text, got)
		}
		if got := Compile(c.pattern).String(); got != c.pattern {
			t.Errorf("%q is printed as %q", c.pattern, got)
		}
	}
}

func TestMatchBefore(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"x:/a", "x:/a", true}, {"x:/a", "x:/a/b", true}, {"x:/a", "x:/a?b", true}, {"x:/a", "x:/a;b", true}, {"x:/a", "x:/ab", false},
		{"x:*a", "x:/a/b", true}, {"x:*a", "x:/ab/a;", true}, {"x:*a", "x:/ab", false}, {"x:*aa", "x:aaa/", true}, {"x:/a/*", "x:/a", false},
		{"*", "", true}, {"x:*b*a", "x:bca?d", true}, {"x:*b*a", "x:aa/b", false},
	} {
		if got := Compile(c.pattern).MatchBefore(c.text, "/?;"); got != c.want {
			t.Errorf("%q covers %q or its beginning: %v", c.pattern, c.text, got)
		}
	}
}

func TestMatchesAll(t *testing.T) {
	for pattern, want := range map[string]bool{"*": true, "**": true, "": false, "*a": false, "a": false} {
		if got := Compile(pattern).MatchesAll(); got != want {
			t.Errorf("%q covers everything: %v", pattern, got)
		}
	}
}

func TestCanBegin(t *testing.T) {
	for _, c := range []struct {
		pattern, lead string
		want          bool
	}{
		{"abc", "ab", true}, {"abc", "abcd", false}, {"a*", "abcd", true}, {"b*", "a", false}, {"*", "x", true}, {"abc*", "ab", true}, {"", "", true},
	} {
		if got := Compile(c.pattern).CanBegin(c.lead); got != c.want {
			t.Errorf("%q can begin with %q: %v", c.pattern, c.lead, got)
		}
	}
}

func TestCanBeginFolded(t *testing.T) {
	for _, c := range []struct {
		pattern, lead string
		want          bool
	}{
		{"Files+file:///x", "files+", true}, {"files+*", "FILES+", true}, {"fi*", "files+", true}, {"fi", "files+", false}, {"other+*", "files+", false},
		{"%66iles+*", "files+", true}, {"\uff46iles+*", "files+", true}, {"*", "files+", true}, {"x", "", true},
	} {
		if got := Compile(c.pattern).CanBeginFolded(c.lead); got != c.want {
			t.Errorf("%q can begin with %q: %v", c.pattern, c.lead, got)
		}
	}
}

// FuzzMatch holds globs against regular expressions that say the same.
func FuzzMatch(f *testing.F) {
	f.Add("a*b*", "axbx/y")
	f.Add("*aa", "aaa?")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		// In a regular expression, U+FFFD matches every byte that is not UTF-8.
		if len(pattern) > 50 || len(text) > 200 || !utf8.ValidString(text) {
			return
		}
		var parts []string
		for _, p := range strings.Split(pattern, "*") {
			parts = append(parts, regexp.QuoteMeta(p))
		}
		core := strings.Join(parts, "(?s:.*)")
		whole, err := regexp.Compile("^" + core + "$")
		if err != nil {
			return // the pattern is not UTF-8
		}
		before := regexp.MustCompile("^" + core + "(?s:[/?;].*)?$")
		g := Compile(pattern)
		if got, want := g.Match(text), whole.MatchString(text); got != want {
			t.Errorf("%q covers %q: %v, want %v", pattern, text, got, want)
		}
		if got, want := g.MatchBefore(text, "/?;"), before.MatchString(text); got != want {
			t.Errorf("%q covers %q or its beginning: %v, want %v", pattern, text, got, want)
		}
	})
}
