package endpoint

import (
	"net/url"
	"testing"
)

func testSet() *Set {
	return New([]Profile{
		{Name: "coding", Hosts: []string{"coding.example.com", "shared.example.com:8443"}, Groups: []string{"dev"}},
		{Name: "ops", Hosts: []string{"ops.example.com", "[2001:db8::1]:443"}, Groups: []string{"dev", "admin"}},
	})
}

func TestFind(t *testing.T) {
	s := testSet()
	for _, tt := range []struct{ url, host, path, profile string }{
		{"/mcp", "gw.example.com", "/mcp", ""},
		{"/mcp?x=1", "gw.example.com", "/mcp", ""},
		{"/mcp/default", "gw.example.com", "/mcp/default", ""},
		{"/mcp/coding", "gw.example.com", "/mcp/coding", "coding"},
		{"/mcp/coding", "ops.example.com", "/mcp/coding", "coding"},
		{"/sse", "gw.example.com", "/sse", ""},
		{"/sse/message?sessionId=x", "coding.example.com", "/sse", "coding"},
		{"/mcp", "coding.example.com", "/mcp", "coding"},
		{"/mcp", "coding.example.com:8080", "/mcp", "coding"},
		{"/mcp", "CODING.Example.Com", "/mcp", "coding"},
		{"/mcp", "coding.example.com.", "/mcp", "coding"},
		{"/mcp", "coding.example.com.:443", "/mcp", "coding"},
		{"/mcp/default", "coding.example.com", "/mcp/default", "coding"},
		{"/mcp", "shared.example.com:8443", "/mcp", "coding"},
		{"/mcp", "shared.example.com.:8443", "/mcp", "coding"},
		{"/mcp", "shared.example.com", "/mcp", ""},
		{"/mcp", "shared.example.com:8444", "/mcp", ""},
		{"/mcp", "[2001:DB8::1]:443", "/mcp", "ops"},
		{"/mcp", "[2001:db8::1]", "/mcp", ""},
		{"/mcp", "coding.example.com.evil.example", "/mcp", ""},
		{"/mcp", "evil.example:coding.example.com", "/mcp", ""},
		{"/mcp", "", "/mcp", ""},
		// Other spellings of the path are no endpoints.
		{"/mcp/", "gw", "", ""},
		{"//mcp", "gw", "", ""},
		{"/mcp//coding", "gw", "", ""},
		{"/mcp/coding/", "gw", "", ""},
		{"/mcp/%63oding", "gw", "", ""},
		{"/%6dcp", "gw", "", ""},
		{"/mcp%2fcoding", "gw", "", ""},
		{"/mcp/Coding", "gw", "", ""},
		{"/mcp/./coding", "gw", "", ""},
		{"/mcp/x/../coding", "gw", "", ""},
		{"/mcp/none", "gw", "", ""},
		{"/mcp/coding/message", "gw", "", ""},
		{"/sse/coding", "gw", "", ""},
		{"/coding", "coding.example.com", "", ""},
		{"/", "coding.example.com", "", ""},
	} {
		u, err := url.ParseRequestURI(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		e, ok := s.Find(u, tt.host)
		if ok != (tt.path != "") || e.Path != tt.path || e.Profile != tt.profile {
			t.Errorf("Find(%s, %s) = %+v, %v", tt.url, tt.host, e, ok)
		}
	}
}

func TestChoose(t *testing.T) {
	s := testSet()
	type names = []string
	for _, tt := range []struct {
		name, path, host string
		groups, pinned   []string
		want             string // "-" for none
	}{
		{name: "nobody", path: "/mcp", want: "default"},
		{name: "a group", path: "/mcp", groups: names{"admin"}, want: "ops"},
		{name: "a group of two profiles gets the first", path: "/mcp", groups: names{"dev"}, want: "coding"},
		{name: "the order of profiles counts, not that of groups", path: "/mcp", groups: names{"admin", "dev"}, want: "coding"},
		{name: "an unknown group", path: "/mcp", groups: names{"sales"}, want: "default"},
		{name: "HTTP+SSE", path: "/sse", groups: names{"admin"}, want: "ops"},
		{name: "the host precedes groups", path: "/mcp", host: "ops.example.com", groups: names{"dev"}, want: "ops"},
		{name: "the path precedes host and groups", path: "/mcp/coding", host: "ops.example.com", groups: names{"admin"}, want: "coding"},
		{name: "anybody may use any path", path: "/mcp/coding", want: "coding"},

		{name: "pinned to the choice", path: "/mcp", groups: names{"admin"}, pinned: names{"coding", "ops"}, want: "ops"},
		{name: "pinned elsewhere", path: "/mcp", groups: names{"admin"}, pinned: names{"coding"}, want: "coding"},
		{name: "pinned, without groups", path: "/mcp", pinned: names{"coding", "ops"}, want: "coding"},
		{name: "pinned, by HTTP+SSE", path: "/sse", pinned: names{"ops"}, want: "ops"},
		{name: "pinned, by another host", path: "/mcp", host: "coding.example.com", pinned: names{"ops"}, want: "ops"},
		{name: "pinned to the default profile", path: "/mcp", groups: names{"dev"}, pinned: names{"default"}, want: "default"},
		{name: "the default profile by its name", path: "/mcp/default", pinned: names{"default", "ops"}, want: "default"},
		{name: "its own path", path: "/mcp/ops", pinned: names{"coding", "ops"}, want: "ops"},
		{name: "another path", path: "/mcp/ops", pinned: names{"coding"}, want: "-"},
		{name: "another path, pinned to the default profile", path: "/mcp/ops", pinned: names{"default"}, want: "-"},
		{name: "pinned to a profile that is gone", path: "/mcp", pinned: names{"gone"}, want: "-"},
		{name: "one of two is gone", path: "/mcp", pinned: names{"gone", "ops"}, want: "ops"},
		{name: "pinned to nothing", path: "/mcp", pinned: names{}, want: "-"},
	} {
		e, ok := s.Find(&url.URL{Path: tt.path}, tt.host)
		if !ok {
			t.Fatalf("%s: no endpoint", tt.name)
		}
		got, ok := s.Choose(e, tt.groups, tt.pinned)
		if got = NameOf(got); !ok {
			got = "-"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The default profile can have hosts and groups too: they keep requests from other profiles.
func TestDefaultProfileWithHosts(t *testing.T) {
	s := New([]Profile{
		{Name: Default, Hosts: []string{"all.example.com"}, Groups: []string{"all"}},
		{Name: "coding", Groups: []string{"all", "dev"}},
	})
	for _, tt := range []struct {
		host, group, want string
	}{{"all.example.com", "dev", ""}, {"gw", "dev", "coding"}, {"gw", "all", ""}} {
		e, _ := s.Find(&url.URL{Path: Path}, tt.host)
		if got, ok := s.Choose(e, []string{tt.group}, nil); !ok || got != tt.want {
			t.Errorf("%+v: %q, %v", tt, got, ok)
		}
	}
	if got := s.Names(); len(got) != 2 || got[0] != Default || got[1] != "coding" {
		t.Errorf("names %q", got)
	}
}

func TestScopeOf(t *testing.T) {
	const base = "https://gw.example.com/a"
	s := testSet()
	for _, tt := range []struct {
		audience string
		scope    Scope
		profile  string
	}{
		{"https://gw.example.com/a", Everywhere, ""},
		{"https://gw.example.com/a/", Everywhere, ""},
		{"https://gw.example.com/a/mcp", OneProfile, ""},
		{"https://gw.example.com/a/sse", OneProfile, ""},
		{"https://gw.example.com/a/mcp/default", OneProfile, ""},
		{"https://gw.example.com/a/mcp/coding", OneProfile, "coding"},
		{"https://gw.example.com/a/mcp/gone", OneProfile, "gone"},
		{"https://coding.example.com/a", OneProfile, "coding"},
		{"https://coding.example.com/a/mcp", OneProfile, "coding"},
		{"https://coding.example.com:443/a/sse", OneProfile, "coding"},
		{"https://coding.example.com/a/mcp/ops", OneProfile, "ops"},

		{"https://gw.example.com", Nowhere, ""},
		{"https://gw.example.com/mcp", Nowhere, ""},
		{"https://gw.example.com/ab", Nowhere, ""},
		{"https://gw.example.com/amcp", Nowhere, ""},
		{"https://gw.example.com/a/other", Nowhere, ""},
		{"https://gw.example.com/a/mcp/coding/x", Nowhere, ""},
		{"https://gw.example.com/a/mcp/", Nowhere, ""},
		{"https://gw.example.com/a/mcp?x", Nowhere, ""},
		{"http://gw.example.com/a/mcp", Nowhere, ""},
		{"https://gw.example.com.evil.example/a", Nowhere, ""},
		{"https://gw.example.com:8443/a", Nowhere, ""},
		{"https://evil.example/a/mcp", Nowhere, ""},
		{"https://evil.example/https://gw.example.com/a", Nowhere, ""},
		{"https://coding.example.com", Nowhere, ""},
		{"ftp://coding.example.com/a", Nowhere, ""},
		{"coding", Nowhere, ""},
		{"", Nowhere, ""},
	} {
		if scope, profile := s.ScopeOf(tt.audience, base); scope != tt.scope || profile != tt.profile {
			t.Errorf("ScopeOf(%s) = %v, %q, want %v, %q", tt.audience, scope, profile, tt.scope, tt.profile)
		}
	}
	if scope, _ := s.ScopeOf("https://gw.example.com", ""); scope != Nowhere {
		t.Error("without a public URL a URL is the gateway's")
	}
}

// A profile must cost nothing per request.
func TestAllocations(t *testing.T) {
	s := testSet()
	u, groups, pinned := &url.URL{Path: "/mcp"}, []string{"admin"}, []string{"ops"}
	if n := testing.AllocsPerRun(100, func() {
		e, _ := s.Find(u, "gw.example.com:8080")
		if p, ok := s.Choose(e, groups, pinned); !ok || p != "ops" {
			t.Error(p)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// No two spellings of a Host and no other path lead to a profile that is named otherwise.
func FuzzFind(f *testing.F) {
	s := testSet()
	f.Add("/mcp/%63oding", "coding.example.com.")
	f.Add("http://coding.example.com/mcp", "[::1]:80")
	f.Fuzz(func(t *testing.T, target, host string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		e, ok := s.Find(u, host)
		if !ok {
			return
		}
		if got := u.EscapedPath(); got != e.Path && got != PathMessages {
			t.Errorf("%q is served as %s", target, e.Path)
		}
		if again, _ := s.Find(u, normalHost(host)); again != e {
			t.Errorf("%q gives %+v, and its normal form %+v", host, e, again)
		}
	})
}
