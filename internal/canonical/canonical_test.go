package canonical

import (
	"strings"
	"testing"
)

// TestURI has URIs with their canonical spellings; "" stands for none.
func TestURI(t *testing.T) {
	for uri, want := range map[string]string{
		"FILE:///etc/passwd":             "file:///etc/passwd",
		"file:/etc/passwd":               "file:///etc/passwd",
		"file:etc/passwd":                "file:///etc/passwd",
		"file://localhost/etc/passwd":    "file:///etc/passwd",
		"file://evil.example/etc":        "",
		"file:///etc/passwd?x":           "file:///etc/passwd",
		"file:///a/../b/./c":             "file:///b/c",
		"file:///a/%2e%2E/b":             "file:///b",
		"file:///a%2f..%5cb":             "file:///b",
		`file:\\\a\b`:                    "file:///a/b",
		"file:////a//b":                  "file:///a/b",
		"file:///a//":                    "file:///a/",
		"file:///a/b#x":                  "file:///a/b",
		"file:///a/%c3%a9":               "file:///a/%C3%A9",
		"file:///a/é":                    "file:///a/%C3%A9",
		"file:///a/e\u0301":              "file:///a/%C3%A9",
		"file:///a/e%CC%81":              "file:///a/%C3%A9",
		"file:///a b":                    "file:///a%20b",
		"file:///%61":                    "file:///a",
		"file:///%252e":                  "",
		"file:///a%00":                   "",
		"file:///a\u200bb":               "",
		"file:///%ff":                    "",
		"file:///%c0%ae":                 "",
		"https://H.Example:0443/X":       "https://h.example/X",
		"https://u@h.example./x":         "https://h.example/x",
		"https://h.example:8443/x?Q=%7e": "https://h.example:8443/x?Q=~",
		"http://127.1/":                  "",
		"http://[::0001]/":               "http://[::1]/",
		"https://h?x":                    "https://h/?x",
		"memo:///a/..;b=c/./d":           "memo:///d",
		"MEMO:x//y":                      "memo:x/y",
		"git+HTTPS://h:443/x":            "git+https://h/x",
		"note:///":                       "note:///",
		"":                               "", "plain": "", "a b:c": "",
	} {
		got, ok := URI(uri)
		if got != want || ok != (want != "") {
			t.Errorf("%q is spelled %q (%v), want %q", uri, got, ok, want)
		}
		if uri != want && Violation(uri) == "" {
			t.Errorf("%q is canonical", uri)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, uri := range []string{
		"file:///", "file:///a", "file:///a/", "file:///a%20b", "file:///%C3%A9", "file:///C:/x", "file:///.hidden", "file:///..a/b", "file:///a...b", "file:///a;v=1",
		"https://h.example", "https://h.example/", "https://h.example:8443/a?q=1&r=a/b?", "http://1.2.3.4/x", "http://[2001:db8::1]:8080/x", "https://h.example/a%3Ab",
		"note:///", "memo:a", "mailto:a+b@example.com", "urn:isbn:1", "git+https://h.example/x", "db://1/x", "note://", "a.b-c+d:x", "files+file:///a",
		"https://h.example/" + strings.Repeat("a", MaxBytes-len("https://h.example/")),
	} {
		if why := Violation(uri); why != "" {
			t.Errorf("%q is not canonical: %s", uri, why)
		}
		if got, ok := URI(uri); !ok || got != uri {
			t.Errorf("%q is spelled %q (%v)", uri, got, ok)
		}
	}
}

// TestViolations has URIs and a word of why they are not canonical.
func TestViolations(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///" + strings.Repeat("a", MaxBytes): "8192 bytes",
		"Memo:a": "lower case", "1a:b": "lower case", "url:file:/x": "wraps", "file:/x": "two slashes", "https:h/x": "two slashes", "file://": "path",
		"file://h/x": "host", "file:///x?y": "query", "https:///x": "no host", "https://:80/x": "no host", "https://h:/x": "plain number", "https://h:x/": "plain number",
		"https://h:443/": "default port", "ws://h:80/": "default port", "memo://h:0/": "plain number", "https://u@h/": "user", "https://h./": "ends in a dot", "https://h?x": "right behind", "https://H/": "lower case", "https://%68/": "ASCII",
		"https://ｈ/": "ASCII", "https:// h/": "ASCII", "http://2130706433/": "usual form", "http://0x7f.1/": "usual form", "http://127.0.0.01/": "usual form", "http://[::ffff:127.0.0.1]/": "usual form", "http://[::1%25lo]/": "usual form", "http://[0::1]/": "usual form",
		"memo:a//b": "empty segment", "memo:///a//": "empty segment", "memo:////a": "empty segment", "memo:;x": "empty segment", "memo:a/;x": "empty segment", "memo:a/./b": "dot segment", "memo:a/..": "dot segment", "memo:a/..;x/b": "dot segment", "memo:a;x/b": "before its last",
		"memo:a./b": "ends in a dot", "memo:a%20": "ends in a dot", "file:///a::$DATA": "stream", "file:///C%7C/x": "bar", "memo:a\\b": "backslash", "memo:a#b": "fragment", "memo:a b": "percent-encoded", "memo:é": "percent-encoded", "memo:a\tb": "percent-encoded",
		"memo:%2f": "upper case", "memo:%2": "upper case", "memo:%u002e": "upper case", "memo:%2F": "encoded slash", "memo:%5C": "encoded slash", "memo:%2E": "encoded slash", "memo:%25": "encoded slash", "memo:a?b=%2F": "encoded slash",
		"memo:%41": "needs no encoding", "memo:%7E": "needs no encoding", "memo:%0A": "control", "memo:%7F": "control", "memo:%C2%85": "control", "memo:%E2%80%8B": "invisible", "memo:a?%EF%BB%BF": "invisible", "memo:%FF": "UTF-8", "memo:%C0%AE": "UTF-8", "memo:%E0%80%AE": "UTF-8",
		"memo:e%CC%81": "NFC", "memo:a/%EF%BC%8F": "may be read", "memo:%EF%BC%8E%EF%BC%8E/a": "may be read", "memo:a/%E2%80%A5": "may be read", "memo:a%E2%81%84b": "may be read", "memo:%EF%BC%85": "may be read", "memo:a%E3%80%80": "may be read", "memo:..%C2%A5a": "may be read",
	} {
		if got := Violation(uri); !strings.Contains(got, want) || got == "" {
			t.Errorf("%.80q: %q, want %q", uri, got, want)
		}
	}
}

// FuzzURI demands that a canonical spelling is canonical, and that a canonical URI is its
// own canonical spelling.
func FuzzURI(f *testing.F) {
	for _, uri := range []string{"file:///a/../b", "HTTPS://u@H:443/%7e?x#y", "memo:é/e\u0301//", `file:\\x`, "a:%2e%2F%5c"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		spelled, ok := URI(uri)
		if ok && Violation(spelled) != "" {
			t.Errorf("%q is spelled %q: %s", uri, spelled, Violation(spelled))
		}
		if Violation(uri) == "" && spelled != uri {
			t.Errorf("%q is canonical and spelled %q", uri, spelled)
		}
	})
}

func TestAllocations(t *testing.T) {
	for _, uri := range []string{"https://h.example/a/b%20c?d=e", "https://h.example/" + strings.Repeat(`A%2fb//c;x=1/./..%5c\`, 2000)} {
		if n := testing.AllocsPerRun(100, func() { Violation(uri) }); n != 0 {
			t.Errorf("checking %.40q makes %v allocations", uri, n)
		}
	}
}
