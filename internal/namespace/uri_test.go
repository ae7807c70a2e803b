package namespace

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/yosida95/uritemplate/v3"
)

func TestURIs(t *testing.T) {
	tests := []struct{ name, native, public string }{
		{"scheme", "file:///a.txt", "files+file:///a.txt"},
		{"no slashes", "urn:isbn:123", "files+urn:isbn:123"},
		{"scheme with plus", "git+ssh://h/r", "files+git+ssh://h/r"},
		{"spaces", "memo://a b/é", "files+memo://a b/é"},
		{"no scheme", "a b", "files+0:a b"},
		{"empty", "", "files+0:"},
		{"colon first", ":x", "files+0::x"},
		{"digit first", "0:x", "files+0:0:x"},
		{"upper case", "FILE:///a", "files+0:FILE:///a"},
		{"not ASCII", "größe:x", "files+0:größe:x"},
		{"relative", "/a/b", "files+0:/a/b"},
		{"looks public", "files+file:///a", "files+files+file:///a"},
		{"ui", "ui://weather/now", "ui://files.weather/now"},
		{"ui of another", "ui://other.weather", "ui://files.other.weather"},
		{"ui without authority", "ui:///x", "ui://files./x"},
		{"ui without slashes", "ui:now", "ui://files~/now"},
		{"ui with one slash", "ui:/now", "ui://files~//now"},
		{"ui upper case", "UI://weather", "files+0:UI://weather"},
		{"http", "http://example.com/a", "http://example.com/a"},
		{"https", "https://example.com/a", "https://example.com/a"},
		{"HTTPS", "HTTPS://example.com/a", "HTTPS://example.com/a"},
		{"httpx", "httpx://a", "files+httpx://a"},
		{"template", "file:///{path}", "files+file:///{path}"},
		{"template from the first character", "{scheme}://{host}", "files+0:{scheme}://{host}"},
		{"template of ui", "ui://{host}/x", "ui://files.{host}/x"},
	}
	prefixed, open := naming(t, "files", "files"), naming(t, "files", "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := prefixed.PublicURI(tt.native); got != tt.public {
				t.Errorf("public: got %q, want %q", got, tt.public)
			}
			if got, ok := prefixed.NativeURI(tt.public); got != tt.native || !ok {
				t.Errorf("native: got %q, %v, want %q", got, ok, tt.native)
			}
			if got := open.PublicURI(tt.native); got != tt.native {
				t.Errorf("without a prefix: got %q", got)
			}
			if got, ok := open.NativeURI(tt.native); got != tt.native || !ok {
				t.Errorf("without a prefix, back: got %q", got)
			}
		})
	}
}

func TestForeignURIs(t *testing.T) {
	s, err := New("files", "data", "__")
	if err != nil {
		t.Fatal(err)
	}
	for _, public := range []string{
		"", "file:///a", "files+file:///a", "data", "data+", "data+x", "data+FILE:///a", "data+http://a/", "data+ui://a", "Data+file:///a",
		"ui://weather", "ui://data.weather", "ui://files", "ui://files~", "ui://files~x", "ui:files.x", "datax+file:///a", "+file:///a",
	} {
		if native, ok := s.NativeURI(public); ok {
			t.Errorf("%q resolves to %q", public, native)
		}
	}
	// With a configured prefix, ui: URIs still show the upstream's name.
	if got := s.PublicURI("ui://x"); got != "ui://files.x" {
		t.Errorf("ui: got %q", got)
	}
}

func TestRenamed(t *testing.T) {
	s := naming(t, "b", "").WithRenamed(map[string]string{"file:///a": "b+file:///a"})
	if got := s.PublicURI("file:///a"); got != "b+file:///a" {
		t.Errorf("renamed: %q", got)
	}
	if got := s.PublicURI("file:///c"); got != "file:///c" {
		t.Errorf("other: %q", got)
	}
	if got, ok := s.NativeURI("b+file:///a"); got != "file:///a" || !ok {
		t.Errorf("back: %q", got)
	}
}

var schemeForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)

func FuzzURI(f *testing.F) {
	for _, s := range []string{"", "file:///a", "ui://x", "ui:x", "HTTP://x", "0:x", "a b", "files+file:x", "{x}", "\xff:", "https:"} {
		f.Add(s)
	}
	namings := []*Naming{naming(f, "files", "files"), naming(f, "other", "other"), naming(f, "open", "")}
	f.Fuzz(func(t *testing.T, native string) {
		for i, s := range namings {
			public := s.PublicURI(native)
			if back, ok := s.NativeURI(public); back != native || !ok {
				t.Errorf("%q becomes %q becomes %q, %v", native, public, back, ok)
			}
			if s.Prefix() == "" || IsWeb(native) {
				continue
			}
			if !schemeForm.MatchString(public) {
				t.Errorf("%q becomes %q, which has no scheme", native, public)
			}
			owner, ok := OwnerOf(public)
			if !ok || owner.Name != s.Upstream() {
				t.Errorf("%q becomes %q, whose owner is %q", native, public, owner.Name)
			}
			if _, ok := namings[1-i].NativeURI(public); ok {
				t.Errorf("%q of %s resolves at %s", public, s.Upstream(), namings[1-i].Upstream())
			}
		}
	})
}

// checkTemplate checks that the native form of a public template's expansion is the
// expansion of the native template.
func checkTemplate(t *testing.T, s *Naming, native, value string) {
	t.Helper()
	nt, err := uritemplate.New(native)
	if err != nil {
		return
	}
	public := s.PublicURI(native)
	pt, err := uritemplate.New(public)
	if err != nil {
		t.Fatalf("template %q becomes %q: %v", native, public, err)
	}
	values := uritemplate.Values{}
	for i, name := range nt.Varnames() {
		switch i % 3 {
		case 0:
			values.Set(name, uritemplate.String(value))
		case 1:
			values.Set(name, uritemplate.List(value, "b"))
		}
	}
	want, err := nt.Expand(values)
	if err != nil {
		return
	}
	expanded, err := pt.Expand(values)
	if err != nil {
		t.Fatalf("template %q becomes %q: %v", native, public, err)
	}
	if got, ok := s.NativeURI(expanded); got != want || !ok {
		t.Errorf("template %q becomes %q, expands to %q, back to %q, %v; want %q", native, public, expanded, got, ok, want)
	}
	if back, ok := s.NativeURI(public); back != native || !ok {
		t.Errorf("template %q becomes %q becomes %q", native, public, back)
	}
}

var templates = []string{
	"file:///{path}", "file://{+path}", "{scheme}://{host}/x", "{+uri}", "ui://{host}/x", "ui:{+rest}", "ui{x}:a", "https://h/{id}{?q,r*}",
	"http{s}://{host}", "memo:{x}{#y}", "a{b}:c", "{?x}", "x{/y*}", "db://{table:3}/rows", "FILE:///{x}", "größe://{x}", "plain", "",
}

func TestTemplates(t *testing.T) {
	for _, s := range []*Naming{naming(t, "files", "files"), naming(t, "files", "")} {
		for _, native := range templates {
			for _, value := range []string{"", "a", "a/b c", "http", "ui", "ui://x", "https://x/", "é+%41:"} {
				checkTemplate(t, s, native, value)
			}
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, native := range templates {
		f.Add(native, "a/b")
	}
	s := naming(f, "files", "files")
	f.Fuzz(func(t *testing.T, native, value string) {
		if len(native) < 200 && strings.ToValidUTF8(value, "") == value {
			checkTemplate(t, s, native, value)
		}
	})
}

// Clients parse URIs, so the public form of a valid URI must parse.
func TestPublicURIsParse(t *testing.T) {
	s := naming(t, "my-files", "my-files")
	for _, native := range []string{"file:///a.txt", "ui://weather/now?x=1#y", "test://static-text", "urn:a:b", "FILE:///a"} {
		if _, err := url.Parse(s.PublicURI(native)); err != nil {
			t.Errorf("%q: %v", native, err)
		}
	}
}

func BenchmarkNativeURI(b *testing.B) {
	s := naming(b, "files", "files")
	b.ReportAllocs()
	for b.Loop() {
		s.NativeURI("files+file:///some/path/to/a/file.txt")
	}
}
