package plaintext

import (
	"net/url"
	"testing"
)

func TestURLPath(t *testing.T) {
	for in, want := range map[string]string{
		"/mcp":              "/mcp",
		"/%6dcpgw_%41BC%7e": "/mcpgw_ABC~",
		"/a%2Fb%2fc%00%25":  "/a%2Fb%2fc%00%25",
		"":                  "",
	} {
		if got := URLPath(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// The path means the same.
func FuzzURLPath(f *testing.F) {
	f.Add("/%6d%zz%")
	f.Fuzz(func(t *testing.T, s string) {
		before, err := url.PathUnescape(s)
		if err != nil {
			return
		}
		if after, err := url.PathUnescape(URLPath(s)); err != nil || after != before {
			t.Errorf("%q becomes %q, %v", s, after, err)
		}
	})
}
