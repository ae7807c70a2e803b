package plaintext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestIsInvisible(t *testing.T) {
	for _, r := range "\u00ad\u200b\u200d\u202e\u2066\ufe0f\ufeff\U000e0041\u3164\u115f" {
		if !IsInvisible(r) {
			t.Errorf("%U is visible", r)
		}
	}
	for _, r := range "a é字😀\u0301\u0600\u2800\u3000" {
		if IsInvisible(r) {
			t.Errorf("%U is invisible", r)
		}
	}
	for r := range rune(unicode.MaxRune) {
		if unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) && !IsInvisible(r) {
			t.Errorf("%U is ignored by default and visible", r)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text      string
		most      int
		want, cut string
	}{
		{"abc", 3, "abc", "abc"}, {"abcd", 3, "abc…", "abc"}, {"aé", 2, "a…", "a"}, {"", 0, "", ""}, {"é", 0, "…", ""}, {"a\xffbc", 3, "ab…", "a\xffb"},
	} {
		if got := Clip(c.text, c.most); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
		if got := Truncate(c.text, c.most); got != c.cut {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.text, c.most, got, c.cut)
		}
	}
	if got := Truncate("abc", -1); got != "" {
		t.Errorf("Truncate to less than nothing is %q", got)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"read", "raed", 1}, {"read", "reads", 1}, {"read", "rod", 2}, {"read", "READ", 4}, {"ca", "abc", 3}, {"kitten", "sitting", 3},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := EditDistance(pair[0], pair[1], 10); got != c.want {
				t.Errorf("%q and %q: %d, want %d", pair[0], pair[1], got, c.want)
			}
			if got := EditDistance(pair[0], pair[1], 1); c.want > 1 && got <= 1 {
				t.Errorf("%q and %q: %d, want more than 1", pair[0], pair[1], got)
			}
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("aé字", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := Truncate(s, n)
		if !strings.HasPrefix(s, got) || len(got) > max(n, 0) && got != s || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("Truncate(%q, %d) = %q", s, n, got)
		}
	})
}

func TestHeaderCharacters(t *testing.T) {
	for c := range 256 {
		b := byte(c)
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		if want := letter || b < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0; IsToken("x"+string([]byte{b})) != want {
			t.Errorf("%#x in a token: %v", b, !want)
		}
		if want := b == '\t' || b >= ' ' && b != 0x7f; IsFieldValue(string([]byte{b})) != want {
			t.Errorf("%#x in a value: %v", b, !want)
		}
	}
	if IsToken("") || !IsFieldValue("") {
		t.Error("an empty text is no token, and can be a value")
	}
}
