package catalog

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// TestEvasionsByPublicURI reads denied resources by every public URI that leads to them:
// listed resources, expansions of templates, interfaces (ui:) and web addresses, each in
// several spellings.
func TestEvasionsByPublicURI(t *testing.T) {
	sources := []Source{
		source(t, "files", "files", resource("file:///etc/passwd"), template("file:///{+path}"), template("file:///pub/{name}"),
			resource("ui://panel/admin/x"), template("ui://panel/{+page}"), resource("https://h.example/admin/x"), resource("https://h.example/pub"), resource("plain text")),
	}
	rule := func(what ...string) *policy.Policy {
		return policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "d", Effect: policy.Deny, What: policy.What{Resources: what}}}})
	}
	lists := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{
		"files": {Resources: policy.Globs{Deny: []string{"file:///etc/*", "ui://panel/admin/*", "https://h.example/admin/*", "plain text"}}},
	}})
	for name, p := range map[string]*policy.Policy{
		"rules": rule("files+file:///etc/*", "ui://files.panel/admin/*", "https://h.example/admin/*", "files+0:plain text"), "lists": lists,
	} {
		v := Build(Options{Policy: p}, sources).View(call.Anonymous, nil)
		allowed := func(public string) bool {
			target, ok := v.Resolve(call.Resource, public)
			return ok && target.Policy.Decide(policy.Request{Method: wire.MethodResourcesRead}).AllowedOutright()
		}
		for _, uri := range []string{
			"files+file:///etc/passwd", "files+file:///pub/../etc/passwd", "files+file:///pub/..%2f..%2fetc%2fpasswd", "files+file:///pub/%2e%2e/etc/passwd", "files+file:///pub/%252e%252e/etc/x",
			"files+file:/etc/passwd", "files+file://localhost/etc/passwd", "files+0:file:///etc/passwd", "files+0:FILE:///etc/passwd", "files+file:///ETC/passwd", "files+file:///etc%00/passwd",
			"files+url:file:///etc/passwd", "files+0: file:///etc/passwd", "files+file:///{path}/../etc/passwd", "files+file:///pub/{name}/../../etc/passwd",
			"ui://files.panel/admin/x", "ui://files.panel/ADMIN/x", "ui://files.PANEL/admin/x", "ui://files.panel/./admin/x", "ui://files.panel/home/../admin/x", "ui://files.panel/%61dmin/x", "ui://files.panel/admin%2fx", "ui://files.panel//admin/x",
			"ui://files.panel/admin;v=1/x", "ui://files.u@panel/admin/x", "ui://files.panel./admin/x", "ui://files.panel:/admin/x", `ui://files.panel\admin\x`, "ui://files.panel/admin/x?y", "ui://files~///panel/admin/x", "files+0:ui://panel/admin/x", "files+0:UI://panel/admin/x",
			"UI://files.panel/admin/x", "ui:files.panel/admin/x", "ui:///files.panel/admin/x", "ui://u@files.panel/admin/x", "files+ui://panel/admin/x",
			"https://h.example/admin/x", "HTTPS://H.example:0443/Admin/x", "https://h.example./pub/../admin/x", "files+0:https://h.example/admin/x", "files+https://h.example/admin/x", "https:h.example/admin/x",
			"files+0:plain text", "files+plain text", "files+0:plain+text",
			"files+%66ile:///etc/passwd", "files+0:%66ile:///etc/passwd", "files+0:file%3a///etc/passwd", "files+file:////etc/etc/../passwd", `https://evil.example\@h.example/admin/x`, "https://evil.example#@h.example/admin/x",
		} {
			if allowed(uri) {
				t.Errorf("%s: %q is allowed", name, uri)
			}
		}
		for _, uri := range []string{
			"files+file:///pub/x", "files+file:///pub/etc/x", "ui://files.panel/home", "ui://files.panel/administration", "https://h.example/pub",
		} {
			if !allowed(uri) {
				t.Errorf("%s: %q is refused", name, uri)
			}
		}
	}
}

// A URI that is neither listed nor canonical is refused with its canonical spelling. The
// answer does not show whether a resource with that URI is listed and hidden.
func TestSpellingErrors(t *testing.T) {
	sources := []Source{
		source(t, "files", "files", resource("file:///Secret dir/a"), resource("file:///pub"), template("file:///{+path}")),
		source(t, "hidden", "hidden", resource("file:///a")),
		source(t, "free", "free", resource("file:///a")),
	}
	v := Build(Options{Policy: policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{
		{Name: "d", Effect: policy.Deny, What: policy.What{Resources: []string{"files+file:///secret*"}}},
		{Name: "h", Effect: policy.Deny, What: policy.What{Upstreams: []string{"hidden"}}},
	}})}, sources).View(call.Anonymous, nil)
	for uri, want := range map[string]string{
		"files+file:///Secret dir/a":   `it has a character that has to be percent-encoded; use "files+file:///Secret%20dir/a"`,
		"files+file:///Absent dir/a":   `it has a character that has to be percent-encoded; use "files+file:///Absent%20dir/a"`,
		"files+FILE:///a/../pub":       `it does not begin with a scheme in lower case; use "files+file:///pub"`,
		"files+0:file:///pub":          `its prefix is not the usual one; use "files+file:///pub"`,
		"files+file:///%252e%252e/pub": "it has an encoded slash, backslash, dot or percent sign; it has no canonical spelling",
		"files+file:///secret/a":       "", // refused, and canonical
		"hidden+FILE:///a":             "",
		"none+FILE:///a":               "",
	} {
		target, ok := v.Resolve(call.Resource, uri)
		if ok {
			t.Errorf("%q resolves", uri)
		}
		switch err := target.SpellingError(); {
		case want == "" && err != nil:
			t.Errorf("%q: %v", uri, err)
		case want != "" && (err == nil || err.Code != wire.CodeInvalidParams || !strings.HasSuffix(err.Message, want)):
			t.Errorf("%q: %v, want %s", uri, err, want)
		}
	}
	for _, uri := range []string{"free+file:///a/../b", "free+file:///A%2fb", "files+file:///pub", "files+file:///other"} {
		if _, ok := v.Resolve(call.Resource, uri); !ok {
			t.Errorf("%q does not resolve", uri)
		}
	}
}
