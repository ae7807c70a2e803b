package policy

import (
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/canonical"
)

// evasions are native spellings at an upstream "files" with which a client may try to reach
// file:///etc/passwd or https://h.example/admin/x.
var evasions = []string{
	"file:///etc/passwd", "FILE:///etc/passwd", "File:///etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd", "file://LOCALHOST/etc/passwd",
	"file:///pub/../etc/passwd", "file:///pub/./../etc/passwd", "file:///pub/%2e%2e/etc/passwd", "file:///pub/%2E%2E/etc/passwd",
	"file:///pub/.%2e/etc/passwd", "file:///pub/..%2fetc/passwd", "file:///pub/%2e%2e%2fetc%2fpasswd", "file:///pub/%252e%252e/etc/passwd",
	"file:///pub/%252e%252e%252fetc/passwd", "file:///pub/%25252e%25252e/etc/passwd", "file:///pub/..%5cetc/passwd", `file:///pub/..\etc/passwd`,
	`file:///pub\..\etc\passwd`, `file:\\\etc\passwd`, "file:///%65tc/passwd", "file:///e%74c/passwd", "file:///%65%74%63/%70asswd", "file:///e%2574c/passwd",
	"file:///etc//passwd", "file:////etc/passwd", "file://///etc//passwd", "file:///etc/./passwd", "file:///etc/x/../passwd", "file:///pub/x//../../etc/passwd",
	"file:///pub/..;/etc/passwd", "file:///pub/..;a=b/etc/passwd", "file:///pub/.;/../etc/passwd", "file:///etc/passwd?x", "file:///etc/passwd#x", "file:///etc/passwd/",
	"file:///etc/passwd%00.txt", "file:///etc/passwd%2500", "\tfile:///etc/passwd", " file:///etc/passwd ", "file:///e\ttc/passwd", "fi\nle:///etc/passwd", "file:///etc\r/passwd",
	"file:///../../etc/passwd", "file:///..%2f..%2fetc/passwd", "file:etc/passwd", "file:///pub/%c0%ae%c0%ae/etc/passwd", "file:///pub/%25%32%65%25%32%65/etc/passwd",
	"file:///pub/%" + strings.Repeat("25", 10) + "2e%2e/etc/passwd", "file:///pub/" + strings.Repeat("x", 64<<10) + "/../../etc/passwd",
	"HTTPS://h.example/admin/x", "https://H.Example/admin/x", "https://h.example:443/admin/x", "https://h.example:/admin/x", "https://h.example./admin/x",
	"https://u@h.example/admin/x", "https://u:p@h.example:443/admin/x", "https:/h.example/admin/x", "https:h.example/admin/x", `https:\\h.example\admin\x`, "https:///h.example/admin/x",
	"https://h%2eexample/admin/x", "https://%68.example/admin/x", "https://h.example/%61dmin/x", "https://h.example/a/../admin/x", "https://h.example//admin/x", "https://h.example/./admin/x",
	"file://evil.example/etc/passwd", "file://u@h:99/etc/passwd", "file://127.0.0.1/etc/passwd", "file:///pub/%e0%80%ae%e0%80%ae/etc/passwd", "file:///pub/%f0%80%80%ae%f0%80%80%ae/etc/passwd",
	"file:///pub/%f8%80%80%80%ae./etc/passwd", "file:///pub/%25e0%2580%25ae./etc/passwd", "file:///etc;v=1/passwd", "file:///etc/passwd;v=1", "file:///etc/passwd%3bx", "file:///ETC/passwd", "file:///etc/PassWd",
	"file:///%45tc/passwd", "file:///etc/passwd.", "file:///etc/passwd%20", "file:///etc/passwd. .", "file:///etc./passwd", "file:///etc%20/passwd", "file:///pub/..%20/etc/passwd", "file:///pub/.%00./etc/passwd",
	"file:///pub/%00../etc/passwd", "file:///etc/pass%00wd", "file:///etc/pass\x01wd", "file:///etc/pass%7fwd", "file:///etc/pass%c2%85wd", "file:///etc/passwd?%00", "file:///pub/%u002e%u002e/etc/passwd", "file:///pub/%U002e./etc/passwd",
	"file:///pub/%25u002e./etc/passwd", "file:///etc/ｐａｓｓｗｄ", "file:///pub/．．/etc/passwd", "file:///pub/..／etc/passwd", "file:///pub/..＼etc/passwd", "file:///pub/%ef%bc%8e./etc/passwd", "file:///pub/％2e./etc/passwd", "file:///ﬁle/../etc/passwd",
	"file:///etc/pass\u200bwd", "file:///etc/pass%e2%80%8bwd", "file:///pub/.\u200d./etc/passwd", "file:///pub/.\ufeff./etc/passwd", "file:///pub/.%ff./etc/passwd", "file:///etc/passwd？x", "file://HOST/pub/../ETC/PASSWD.;x?y",
	"url:file:///etc/passwd", "URL:file:///pub/../etc/passwd", " Url:file:/etc/passwd", "file:///etc/passwd::$DATA", "file:///etc::$INDEX_ALLOCATION/passwd", "file:///etc\u2044passwd", "file:///etc%E2%88%95passwd", "file:///pub\u2216..\u2216etc\u2216passwd", "file:///pub/\u2025/etc/passwd",
	"https://h.example:0443/admin/x", "https://h.example.:00443/admin/x", "https://a@b@h.example/admin/x", "https://h.example@h.example:443/admin/x", "https://h.example/adm\u0131n/x", "https://h.example/adm%C4%B1n/x", "url:https://h.example/admin/x", "https://u:p@h.example./admin/x",
	"https://ｈ.example/admin/x", "https://h.example/ADMIN/x", "https://h.example/admin;a=b/x", "https://h.example/admin./x", "https://h。example/admin/x", "https://h%EF%BC%8Eexample/admin/x", "https://h.example/admin/x?q", "https://h.example/pub/..%2f..%2fadmin/x",
	"\u00a0file:///etc/passwd", "file:///etc/passwd\u3000", "\u2003FILE:/etc/passwd", "%66ile:///etc/passwd", "%2566ile:///etc/passwd", "file%3a///etc/passwd", "file%3A%2F%2F%2Fetc%2Fpasswd", "file%253a///pub/../etc/passwd", "%75rl:file:///etc/passwd", "%2525252566ile:///etc/passwd", "%" + strings.Repeat("25", 10) + "66ile:///etc/passwd",
	"file:///etc/pa\u00dfwd", "file:///etc/PA\u1e9eWD", "file:///etc/pa%c3%9fwd", "file:///pub/..\u00a5etc/passwd", "file:///pub/..%E2%82%A9..%c2%a5etc/passwd", "file:////localhost/etc/passwd", "file:////etc/passwd/.", "url:url:file:///etc/passwd",
	`https://evil.example\@h.example/admin/x`, "https://evil.example#@h.example/admin/x", "https://evil.example?@h.example/admin/x", "https://evil.example%5c@h.example/admin/x", "https://evil.example%23@h.example:443/admin/x", `https://a@evil.example\b@H.example/Admin/x`, "https%3a//evil.example%3f@h.example/admin/x",
	"https://h.example:443%2fadmin/x", "https://h.example%2fadmin%2fx", "%68ttps://h.example/admin/x", "https:// h.example/admin/x", "https://h.example%20/admin/x", "https://h.example%2520/admin/x",
}

// evasionsByOtherReadings are spellings of roots, Windows files, names with spaces and
// addresses, by the glob that they may evade.
var evasionsByOtherReadings = map[string][]string{
	"https://root.example":         {"https://root.example/", "HTTPS://root.example:443", "https://root.example?x", "https://root.example/#x", "https://root.example//", "https://root.example/."},
	"https://root.example/":        {"https://root.example", "https://root.example?x", "https://ROOT.example.:443#x"},
	"memo://root":                  {"memo://root/", "memo://ROOT/", "memo://root/?x", "memo://u@root//"},
	"memo://root/":                 {"memo://root", "memo://Root", "memo://root?x"},
	"file:///srv/keys/":            {"file:///srv/keys", "file:/srv/Keys", "file:///srv/keys?x", "file:///srv/keys/x/.."},
	"file:///C:/keys":              {"file:///C|/keys", "file:///c|/keys", "file://C:/keys", "file://C|/keys", `file:C|\keys`, "file:///C%7c/keys", "file:///%43|/KEYS", "file:///C:/../keys", "file:///C:/a/../../keys", "file:///C:/%2e%2e/keys", "file:///C:/..%2fkeys", `file:\\\C:\..\keys`, "file:///a/../C|/keys", "file://localhost/C|/keys", "file:////LocalHost/C|/keys", "file:%2f%2fC:/keys", "file:///C|/keys?x", "file:////C:/keys"},
	"file://server/share/keys":     {"file:////server/share/keys", `file:\\\\server\share\keys`, "file://///server/share/keys", "file:///%2fserver/share/keys", "file://SERVER/share/./keys"},
	"file:///my%20keys":            {"file:///my+keys", "file:///my keys", "file:/my+keys?x"},
	"git+https://h.example/my key": {"git+https://h.example/my+key", "GIT+https://h.example/my%20key"},
}

// addresses are spellings of an IP address with which a client may try to reach
// http://127.0.0.1/x, http://[::1]/x or https://10.0.0.1:8443/x.
var addresses = []string{
	"http://127.0.0.1/x", "http://127.0.0.1:80/x", "http://127.0.0.1:080/x", "http://127.0.0.1./x", "http://127.0.0.1.:80/x", "http://2130706433/x", "http://0x7f000001/x", "http://0x7f.0.0.0x1/x", "http://0X7F.1/x", "http://0177.0.0.1/x",
	"http://017700000001/x", "http://127.1/x", "http://127.0.1/x", "http://0x7f.0x0.1/../x", "http://u@127.1/x", "http://u@127.0.0.1@127.0.0.1/x", "http://%3127.0.0.1/x", "http://0127.0.0.1/x", "http://127.000.000.001/x", "http://２１３０７０６４３３/x",
	"http://[::ffff:127.0.0.1]/x", "http://[::ffff:7f00:1]:80/x", "http://[0:0:0:0:0:ffff:7f00:0001]/x", "http:127.1/x", `http:\\127.1\x`,
	"http://[::1]/x", "http://[::1]:80/x", "http://[::1]:0080/x", "http://[0:0:0:0:0:0:0:1]/x", "http://[0000::0001]/x", "http://[0::0.0.0.1]/x", "http://[::1%25lo]/x", "http://[::1%lo]/x", "http://[%3A%3A1]/x", "http://u:p@[0::1]/x",
	"https://10.0.0.1:8443/x", "https://10.1:8443/x", "https://167772161:08443/x", "https://012.0.0.1:8443/x", "https://10.0.0.1.:8443/x", "https://[::ffff:a00:1]:8443/x",
}

// resource is an unlisted resource of the upstream "files".
func resource(native string) Item {
	return Item{Kind: call.Resource, Upstream: "files", Native: native, Public: "files+" + native, Noncanonical: canonical.Violation(native) != ""}
}

// leadsElsewhere reports whether the canonical spelling of a URI names a resource that is not
// denied, although careless servers read the URI as a denied one.
func leadsElsewhere(uri string) bool {
	return strings.Contains(uri, "evil.example") || strings.HasPrefix(uri, "file:////localhost/")
}

// spellings returns the URIs and their canonical spellings, if any.
func spellings(uris []string) []string {
	all := slices.Clone(uris)
	for _, uri := range uris {
		if spelled, ok := canonical.URI(uri); ok && !leadsElsewhere(uri) {
			all = append(all, spelled)
		}
	}
	return all
}

func TestEvasionsOfDenyAreRefused(t *testing.T) {
	policies := map[string]*Policy{
		"a rule":             MustNew(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: []string{"files+file:///etc/passwd", "files+https://h.example/admin/*"}}}}}),
		"an upstream's list": MustNew(Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Deny: []string{"file:///etc/passwd", "https://h.example/admin/*"}}}}}),
	}
	for name, p := range policies {
		for _, uri := range evasions {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%s: %.100q is allowed by %s", name, uri, d.Rule)
			}
			spelled, ok := canonical.URI(uri)
			if !ok || leadsElsewhere(uri) {
				continue
			}
			if d := decide(p, anyone, resource(spelled), Request{}); d.Effect != Deny {
				t.Errorf("%s: %.100q, spelled %q, is allowed by %s", name, uri, spelled, d.Rule)
			}
		}
		for _, uri := range []string{"file:///etc/passwd2", "file:///a/etc/passwd", "https://h.example/administration", "https://h.example.org/admin/x", "memo:a"} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%s: %q is refused by %s", name, uri, d.Rule)
			}
		}
	}
}

// Conditions compare the URI as it is written. They are safe from other spellings, but not from
// further equivalences of a server, such as another case.
func TestEvasionsOfConditionsAreRefused(t *testing.T) {
	p := MustNew(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny,
		When: when(t, `resource.uri.matches("(?i)^files\\+file:///etc/passwd$") || resource.native.matches("(?i)^https://h.example/admin/")`)}}})
	for _, uri := range evasions {
		if uri == "file:///etc/passwd/" || uri == "file:///etc/passwd;v=1" {
			continue // other resources, save for globs
		}
		if strings.Contains(uri, "%C4%B1") {
			continue // RE2 knows nothing of the dotless i
		}
		if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
			t.Errorf("%.100q is allowed by %s", uri, d.Rule)
		}
	}
}

func TestEvasionsOfAllowAreRefused(t *testing.T) {
	allowed := []string{"file:///pub/*", "https://h.example/pub/*"}
	var public []string
	for _, a := range allowed {
		public = append(public, "files+"+a)
	}
	policies := map[string]*Policy{
		"a rule": MustNew(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: public}}}}),
		"a condition": MustNew(Options{Rules: []Rule{{Name: "a", Effect: Allow,
			When: when(t, `resource.uri.startsWith("files+file:///pub/") || resource.native.startsWith("https://h.example/pub/")`)}}}),
		"an upstream's list": MustNew(Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Allow: allowed}}}}),
	}
	for name, p := range policies {
		for _, uri := range evasions {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%s: %.100q is allowed by %s", name, uri, d.Rule)
			}
		}
		for _, uri := range []string{"file:///pub/a", "file:///pub/a%20b", "file:///pub/%C3%A9", "file:///pub/dir/", "file:///pub/..a/b", "file:///pub/.hidden", "file:///pub/A;v=1", "https://h.example/pub/a%3Ab?q=%26"} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%s: %q is refused by %s", name, uri, d.Rule)
			}
		}
	}
}

// Every other reading is refused, or decided like the canonical spelling.
func TestEvasionsByOtherReadings(t *testing.T) {
	deny := func(globs ...string) *Policy {
		for i := range globs {
			globs[i] = "files+" + globs[i]
		}
		return MustNew(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: globs}}}})
	}
	for glob, uris := range evasionsByOtherReadings {
		p := deny(glob)
		for _, uri := range append(uris, glob) {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%s: %q is allowed by %s", glob, uri, d.Rule)
			}
		}
		for _, uri := range []string{"https://root.example.org", "memo://roots", "file:///srv", "file:///C:/keys2", "file:///D:/keys", "file:///CC:/keys", "file:///c/keys", "file:///my/keys"} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%s: %q is refused by %s", glob, uri, d.Rule)
			}
		}
	}
	hosts := deny("http://127.0.0.1/*", "http://[::1]/*", "https://10.0.0.1:8443/*")
	for _, uri := range addresses {
		if d := decide(hosts, anyone, resource(uri), Request{}); d.Effect != Deny {
			t.Errorf("%q is allowed by %s", uri, d.Rule)
		}
	}
	for _, uri := range []string{"http://127.0.0.2/x", "http://1.2.3.4/x", "http://[::2]/x", "https://10.0.0.1/x", "memo://1/x"} {
		if d := decide(hosts, anyone, resource(uri), Request{}); d.Effect != Allow {
			t.Errorf("%q is refused by %s", uri, d.Rule)
		}
	}
}

// Other spellings are refused only if policy could refuse or limit a resource by its URI.
func TestWhereSpellingsMatter(t *testing.T) {
	const uri = "FILE:///a/../b"
	limit := &Limit{Rate: 1}
	for name, c := range map[string]struct {
		opts Options
		want Effect
	}{
		"everything is allowed":          {Options{Default: Allow}, Allow},
		"a rule about tools":             {Options{Default: Allow, Rules: []Rule{{Effect: Deny, What: What{Tools: []string{"x"}}}}}, Allow},
		"a rule about another upstream":  {Options{Default: Allow, Rules: []Rule{{Effect: Deny, What: What{Upstreams: []string{"x"}}}}}, Allow},
		"a list of another upstream":     {Options{Default: Allow, Upstreams: map[string]Upstream{"x": {Resources: Globs{Deny: []string{"*"}}}}}, Allow},
		"a rule about another principal": {Options{Default: Allow, Rules: []Rule{{Effect: Deny, Who: Who{Subjects: []string{"bob"}}}}}, Allow},
		"an allow rule for everything":   {Options{Rules: []Rule{{Effect: Allow}}}, Allow},
		"a limit of everything":          {Options{Default: Allow, Rules: []Rule{{Effect: Allow, Limit: limit}}}, Allow},
		"a confirmation of everything":   {Options{Default: Allow, Rules: []Rule{{Effect: Confirm, What: What{Resources: []string{"*"}}}}}, Confirm},
		"a deny rule":                    {Options{Default: Allow, Rules: []Rule{{Effect: Deny, What: What{Resources: []string{"files+x:*"}}}}}, Deny},
		"a confirm rule":                 {Options{Default: Allow, Rules: []Rule{{Effect: Confirm, What: What{Resources: []string{"files+x:*"}}}}}, Deny},
		"a limit rule":                   {Options{Default: Allow, Rules: []Rule{{Effect: Allow, What: What{Resources: []string{"files+x:*"}}, Limit: limit}}}, Deny},
		"an allow rule for some URIs":    {Options{Rules: []Rule{{Effect: Allow, What: What{Resources: []string{"files+*"}}}}}, Deny},
		"a condition":                    {Options{Default: Allow, Rules: []Rule{{Effect: Deny, When: when(t, `resource.uri == "x"`)}}}, Deny},
		"a deny list":                    {Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Deny: []string{"x"}}}}}, Deny},
		"an allow list":                  {Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Allow: []string{"FILE:*"}}}}}, Deny},
	} {
		d := decide(MustNew(c.opts), anyone, resource(uri), Request{})
		if d.Effect != c.want || c.want == Deny && d.Rule != RuleURI {
			t.Errorf("%s: %s by %s, want %s", name, d.Effect, d.Rule, c.want)
		}
	}
}

// Policy decides about a listed resource by its listed spelling, byte for byte.
func TestListedSpellings(t *testing.T) {
	p := MustNew(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: []string{"files+FILE:///A b/../c", "files+x y"}}}}})
	for uri, want := range map[string]Effect{"FILE:///A b/../c": Allow, "x y": Allow, "file:///c": Deny, "FILE:///A b/../C": Deny} {
		it := resource(uri)
		it.Noncanonical = false
		if d := decide(p, anyone, it, Request{}); d.Effect != want {
			t.Errorf("%q: %s by %s, want %s", uri, d.Effect, d.Rule, want)
		}
	}
}

// No spelling of a URI evades the limit of a rule about it, even if another rule decides.
func TestEvasionsOfLimits(t *testing.T) {
	rules := []Rule{
		{Name: "all", Effect: Allow, What: What{Resources: []string{"files+*"}}},
		{Name: "some", Effect: Allow, What: What{Resources: []string{"files+file:///etc/passwd", "files+https://h.example/admin/*"}}, Limit: &Limit{Rate: 1}},
	}
	asks := Rule{Name: "asks", Effect: Confirm, What: What{Resources: []string{"files+file:///*"}}, Limit: &Limit{Concurrent: 1}}
	for name, p := range map[string]*Policy{"globs": MustNew(Options{Rules: rules}), "and one that asks": MustNew(Options{Rules: append(rules, asks)})} {
		for _, uri := range spellings(evasions) {
			d := decide(p, anyone, resource(uri), Request{})
			if d.Effect != Deny && !slices.ContainsFunc(d.Limits, func(l *Limit) bool { return l.Rule == "some" }) {
				t.Errorf("%s: %.100q is bounded by %d limits", name, uri, len(d.Limits))
			}
			counted := make(map[*Limit]bool)
			for _, l := range d.Limits {
				if counted[l] {
					t.Errorf("%s: %.100q counts twice for %s", name, uri, l.Rule)
				}
				counted[l] = true
			}
		}
	}
	if d := decide(MustNew(Options{Rules: rules}), anyone, resource("file:///pub/x"), Request{}); len(d.Limits) != 0 {
		t.Errorf("another URI has the limits %+v", d.Limits)
	}
}

// A restricting list ignores case, and covers a URI followed by a path or a query. An allowing
// list does neither.
func TestGlobsOfURIs(t *testing.T) {
	globs := []string{"file:///Etc/*", "memo:ＫＥＹ", "https://h.example/a%20é"}
	public := []string{"files+file:///Etc/*", "files+memo:ＫＥＹ", "files+https://h.example/a%20é"}
	deny := MustNew(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: public}}}})
	list := MustNew(Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Deny: globs}}}})
	for _, uri := range []string{"file:///etc/x", "file:///ETC/x", "file:///Etc/x", "memo:key", "memo:Key", "memo:%EF%BD%8Bey", "memo:key/x", "memo:KEY?x", "memo:key;x", "memo:key%3Bx",
		"https://h.example/A%20%C3%89", "https://h.example/a%20%C3%A9/b"} {
		for _, p := range []*Policy{deny, list} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny || d.Rule == RuleURI {
				t.Errorf("%q: %s by %s", uri, d.Effect, d.Rule)
			}
		}
	}
	for _, uri := range []string{"memo:keys", "memo:ke", "file:///etc", "https://h.example/a%20e"} {
		for _, p := range []*Policy{deny, list} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%q is refused by %s", uri, d.Rule)
			}
		}
	}
	allow := MustNew(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: []string{"files+file:///Pub/*", "files+memo:a"}}}}})
	for uri, want := range map[string]Effect{"file:///Pub/x": Allow, "file:///Pub/X": Allow, "file:///pub/x": Deny, "file:///PUB/x": Deny, "memo:a": Allow, "memo:a/b": Deny} {
		if d := decide(allow, anyone, resource(uri), Request{}); d.Effect != want {
			t.Errorf("%q: %s, want %s", uri, d.Effect, want)
		}
	}
}

// Folding the parts of a pattern one by one covers at least what the pattern covers.
func FuzzFoldedGlobs(f *testing.F) {
	f.Add("file:///caf*/%41*", "file:///caf%C3%A9/%41b")
	f.Fuzz(func(t *testing.T, pattern, uri string) {
		g := compileURIs([]string{pattern})
		if canonical.Violation(uri) == "" && canonical.Violation(strings.ReplaceAll(pattern, "*", "a")) == "" && !strings.Contains(pattern, "%") &&
			g.allows(candidateOf(uri, true)) && !g.restricts(candidateOf(uri, true)) {
			t.Errorf("%q covers %q only in this spelling", pattern, uri)
		}
	})
}

// The cost of a decision about a URI is bounded for any spelling.
func TestCostOfURIs(t *testing.T) {
	var rules []Rule
	for range 10 {
		rules = append(rules, Rule{Name: "d", Effect: Deny, What: What{Resources: []string{"files+file:///secret/*"}}})
	}
	rights := MustNew(Options{Default: Allow, Rules: rules}).Rights(anyone)
	for name, uri := range map[string]string{
		"hostile": "file:///" + strings.Repeat(`A%2fb//c;x=1/./..%5c\ﬁ%2541+%252e.`, 1500), "canonical": "file:///" + strings.Repeat("A/b%20c/%C3%A9/", 500) + "x",
	} {
		it := resource(uri)
		if n := testing.AllocsPerRun(10, func() { rights.ForItem(it) }); n > 20 {
			t.Errorf("%s: a decision makes %v allocations", name, n)
		}
	}
}
