package policy

import (
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/call"
)

// evasions are spellings, native at an upstream "files", by which a client may
// try to get at file:///etc/passwd, or at https://h.example/admin/x.
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
	"file:///pub/%" + strings.Repeat("25", 10) + "2e%2e/etc/passwd", "file:///pub/" + strings.Repeat("x", maxURI) + "/../../etc/passwd",
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

func TestBare(t *testing.T) {
	for _, uri := range evasions {
		if _, _, ok := Spellings(uri); !ok {
			continue
		}
		if got := Bares(uri); !slices.Contains(got, "file:///etc/passwd") && !slices.Contains(got, "https://h.example/admin/x") {
			t.Errorf("%q: %q", uri, got)
		}
	}
}

func resource(native string) Item {
	return Item{Kind: call.Resource, Upstream: "files", Native: native, Public: "files+" + native,
		PublicURI: func(n string) string { return "files+" + n }}
}

func TestEvasionsOfDenyAreRefused(t *testing.T) {
	policies := map[string]*Policy{
		"a rule": New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: []string{"files+file:///etc/passwd", "files+https://h.example/admin/*"}}}}}),
		"a condition": New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny,
			When: when(t, `resource.uri == "files+file:///etc/passwd" || resource.native.startsWith("https://h.example/admin/")`)}}}),
		"an upstream's list": New(Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Deny: []string{"file:///etc/passwd", "https://h.example/admin/*"}}}}}),
	}
	for name, p := range policies {
		for _, uri := range evasions {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%s: %.100q is allowed by %s", name, uri, d.Rule)
			}
		}
		for _, uri := range []string{"file:///etc/passwd2", "file:///a/etc/passwd", "https://h.example/administration", "https://h.example.org/admin/x", "memo:a", "x y", ""} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%s: %q is refused by %s", name, uri, d.Rule)
			}
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
		"a rule": New(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: public}}}}),
		"a condition": New(Options{Rules: []Rule{{Name: "a", Effect: Allow,
			When: when(t, `resource.uri.startsWith("files+file:///pub/") || resource.native.startsWith("https://h.example/pub/")`)}}}),
		"an upstream's list": New(Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Allow: allowed}}}}),
	}
	for name, p := range policies {
		for _, uri := range evasions {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%s: %.100q is allowed by %s", name, uri, d.Rule)
			}
		}
		for _, uri := range []string{"file:///pub/a", "file:///pub/a%20b", "file:///pub/%C3%A9", "file:///pub/é", "file:///pub/a//b", "file:///pub/a?x=1#y", "file:///pub/x/../y", "https://h.example/pub/a%2Fb?q=%26", "file:///pub/..a/b", "file:///pub/.hidden", "file:///pub/A;v=1/B.", "file:///pub/なに？／100％.txt", "file:///pub/%ef%bb%bfa", "https://h.example/pub/a?text=%0A%09b;c", "file:///pub/%E9t%E9"} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%s: %q is refused by %s", name, uri, d.Rule)
			}
		}
	}
}

// What has no path is the root, what has more slashes than it should is on another
// machine, and a drive of Windows has several spellings in the URL standard.
func TestEvasionsByOtherReadings(t *testing.T) {
	for glob, uris := range map[string][]string{
		"https://root.example":         {"https://root.example/", "HTTPS://root.example:443", "https://root.example?x", "https://root.example/#x", "https://root.example//", "https://root.example/."},
		"https://root.example/":        {"https://root.example", "https://root.example?x", "https://ROOT.example.:443#x"},
		"memo://root":                  {"memo://root/", "memo://ROOT/", "memo://root/?x", "memo://u@root//"},
		"memo://root/":                 {"memo://root", "memo://Root", "memo://root?x"},
		"file:///srv/keys/":            {"file:///srv/keys", "file:/srv/Keys", "file:///srv/keys?x", "file:///srv/keys/x/.."},
		"file:///C:/keys":              {"file:///C|/keys", "file:///c|/keys", "file://C:/keys", "file://C|/keys", `file:C|\keys`, "file:///C%7c/keys", "file:///%43|/KEYS", "file:///C:/../keys", "file:///C:/a/../../keys", "file:///C:/%2e%2e/keys", "file:///C:/..%2fkeys", `file:\\\C:\..\keys`, "file:///a/../C|/keys", "file://localhost/C|/keys", "file:////LocalHost/C|/keys", "file:%2f%2fC:/keys", "file:///C|/keys?x", "file:////C:/keys"},
		"file://server/share/keys":     {"file:////server/share/keys", `file:\\\\server\share\keys`, "file://///server/share/keys", "file:///%2fserver/share/keys", "file://SERVER/share/./keys"},
		"file:///my%20keys":            {"file:///my+keys", "file:///my keys", "file:/my+keys?x"},
		"git+https://h.example/my key": {"git+https://h.example/my+key", "GIT+https://h.example/my%20key"},
	} {
		p := New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: []string{"files+" + glob}}}}})
		for _, uri := range append(uris, glob) {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%s: %q is allowed by %s", glob, uri, d.Rule)
			}
		}
		for _, uri := range []string{"https://root.example/x", "https://root.example.org", "memo://root/x", "memo://roots", "file:///srv/keys/x", "file:///srv", "file:///C:/keys2", "file:///D:/keys", "file:///CC:/keys", "file:///c/keys", "file://server/share", "file:///my/keys", "https://h.example/my+key"} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
				t.Errorf("%s: %q is refused by %s", glob, uri, d.Rule)
			}
		}
	}
	// An allow rule may name such URIs as servers list them.
	for glob, uri := range map[string]string{
		"file:///C:/pub/*": "file:///C:/pub/a+b", "file:///c%3A/pub/*": "file:///c%3A/pub/a", "https://root.example": "https://root.example", "https://root.example/": "https://root.example/",
		"memo://root/": "memo://root/", "file://server/share/*": "file://server/share/a", "mail:*": "mail:a+b@example.com", "http://u@h.example/*": "http://u@h.example/a@b?c@d",
	} {
		p := New(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: []string{"files+" + glob}}}}})
		if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Allow {
			t.Errorf("%s: %q is refused by %s", glob, uri, d.Rule)
		}
	}
}

// No spelling of a URI evades the limit of a rule about it, whichever rule decides.
func TestEvasionsOfLimits(t *testing.T) {
	rules := []Rule{
		{Name: "all", Effect: Allow, What: What{Resources: []string{"files+*"}}},
		{Name: "some", Effect: Allow, What: What{Resources: []string{"files+file:///etc/passwd", "files+https://h.example/admin/*"}}, Limit: &Limit{Rate: 1}},
	}
	open := Rule{Name: "some", Effect: Allow, Limit: &Limit{Rate: 1}, When: when(t, `resource.uri == "files+file:///etc/passwd" || resource.native.startsWith("https://h.example/admin/")`)}
	asks := Rule{Name: "asks", Effect: Confirm, What: What{Resources: []string{"files+file:///*"}}, Limit: &Limit{Concurrent: 1}}
	for name, p := range map[string]*Policy{
		"globs": New(Options{Rules: rules}), "a condition": New(Options{Rules: []Rule{rules[0], open}}), "and one that asks": New(Options{Rules: append(rules, asks)}),
	} {
		for _, uri := range evasions {
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
	if d := decide(New(Options{Rules: rules}), anyone, resource("file:///pub/x"), Request{}); len(d.Limits) != 0 {
		t.Errorf("another URI is bounded by %+v", d.Limits)
	}
}

func TestExactGlobsOfEncodedURIs(t *testing.T) {
	p := New(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: []string{"files+file:///a%20b", "files+memo:x//y", "files+https://H.example/q?a=%2F"}}}}})
	for uri, want := range map[string]Effect{
		"file:///a%20b": Allow, "file:///a b": Allow, "memo:x//y": Allow, "memo:x/y": Deny, "https://H.example/q?a=%2F": Allow, "file:///a%2520b": Deny,
	} {
		if d := decide(p, anyone, resource(uri), Request{}); d.Effect != want {
			t.Errorf("%q: %s, want %s", uri, d.Effect, want)
		}
	}
}

// A public URI may have spellings of its own: the mark for text without a scheme
// is taken before one with a scheme too.
func TestPublicFormsOfOneNative(t *testing.T) {
	p := New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: []string{"files+file:///etc/*"}}}}})
	it := resource("file:///etc/passwd")
	it.Public = "files+0:file:///etc/passwd"
	if d := decide(p, anyone, it, Request{}); d.Effect != Deny {
		t.Error("the URI behind a mark is allowed")
	}
}

// addresses are ways to write one address of a host, by which a client may try to get
// at http://127.0.0.1/x, at http://[::1]/x or at https://10.0.0.1:8443/x.
var addresses = []string{
	"http://127.0.0.1/x", "http://127.0.0.1:80/x", "http://127.0.0.1:080/x", "http://127.0.0.1./x", "http://127.0.0.1.:80/x", "http://2130706433/x", "http://0x7f000001/x", "http://0x7f.0.0.0x1/x", "http://0X7F.1/x", "http://0177.0.0.1/x",
	"http://017700000001/x", "http://127.1/x", "http://127.0.1/x", "http://0x7f.0x0.1/../x", "http://u@127.1/x", "http://u@127.0.0.1@127.0.0.1/x", "http://%3127.0.0.1/x", "http://0127.0.0.1/x", "http://127.000.000.001/x", "http://２１３０７０６４３３/x",
	"http://[::ffff:127.0.0.1]/x", "http://[::ffff:7f00:1]:80/x", "http://[0:0:0:0:0:ffff:7f00:0001]/x", "http:127.1/x", `http:\\127.1\x`,
	"http://[::1]/x", "http://[::1]:80/x", "http://[::1]:0080/x", "http://[0:0:0:0:0:0:0:1]/x", "http://[0000::0001]/x", "http://[0::0.0.0.1]/x", "http://[::1%25lo]/x", "http://[::1%lo]/x", "http://[%3A%3A1]/x", "http://u:p@[0::1]/x",
	"https://10.0.0.1:8443/x", "https://10.1:8443/x", "https://167772161:08443/x", "https://012.0.0.1:8443/x", "https://10.0.0.1.:8443/x", "https://[::ffff:a00:1]:8443/x",
}

func TestFormsOfAddresses(t *testing.T) {
	web := func(uri string) Item {
		return Item{Kind: call.Resource, Upstream: "files", Native: uri, Public: uri, PublicURI: func(n string) string { return n }}
	}
	usual := []string{"http://127.0.0.1/*", "http://[::1]/*", "https://10.0.0.1:8443/*"}
	odd := []string{"http://127.1:080/*", "http://[0::1]:80/*", "https://[::ffff:10.0.0.1]:8443/*"}
	for _, globs := range [][]string{usual, odd} {
		deny := New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: globs}}}})
		for _, uri := range addresses {
			if d := decide(deny, anyone, web(uri), Request{}); d.Effect != Deny {
				t.Errorf("%q is allowed by %s", uri, d.Rule)
			}
		}
		allow := New(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: append([]string{"http://1.2.3.4/*", "memo://1/*"}, globs...)}}}})
		for _, uri := range []string{strings.ReplaceAll(globs[0], "*", "x"), strings.ReplaceAll(globs[1], "*", "x"), strings.ReplaceAll(globs[2], "*", "x"), "http://1.2.3.4/x", "memo://1/x"} {
			if d := decide(allow, anyone, web(uri), Request{}); d.Effect != Allow {
				t.Errorf("%q is refused by %s", uri, d.Rule)
			}
		}
		for _, uri := range []string{"http://127.0.0.2/x", "http://0177.0.0.2/x", "http://1.2.3/x", "http://[::2]/x", "https://10.0.0.1/x"} {
			if d := decide(allow, anyone, web(uri), Request{}); d.Effect != Deny {
				t.Errorf("%q is allowed", uri)
			}
		}
	}
	for _, host := range []string{"1.2.3.4.5", "256.1", "0x", "0x.", "1..2", "4294967296", "a.1", "127.0.0.1.example", "08.1", "-1", "+1", ""} {
		want := map[string]string{"0x": "0.0.0.0"}[host]
		if got := address4(host, octal); got != host && got != want {
			t.Errorf("%q is taken for %s", host, got)
		}
	}
	// A port that is the scheme's own may stand in a pattern.
	deny := New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: []string{"https://h.example:443/*"}}}}})
	for _, uri := range []string{"https://h.example/x", "https://h.example:443/x", "https://h.example./x"} {
		if d := decide(deny, anyone, web(uri), Request{}); d.Effect != Deny {
			t.Errorf("%q is allowed", uri)
		}
	}
}

// What restricts takes upper and lower case for the same, what allows does not.
func TestCaseOfGlobs(t *testing.T) {
	deny := New(Options{Default: Allow, Rules: []Rule{{Name: "d", Effect: Deny, What: What{Resources: []string{"files+file:///Etc/*", "files+memo:ＫＥＹ"}}}}})
	list := New(Options{Default: Allow, Upstreams: map[string]Upstream{"files": {Resources: Globs{Deny: []string{"file:///Etc/*", "memo:ＫＥＹ"}}}}})
	for _, uri := range []string{"file:///etc/x", "file:///ETC/x", "file:///Etc/x", "file:///%45TC/x", "memo:key", "memo:Key", "memo:ｋey"} {
		for _, p := range []*Policy{deny, list} {
			if d := decide(p, anyone, resource(uri), Request{}); d.Effect != Deny {
				t.Errorf("%q is allowed", uri)
			}
		}
	}
	allow := New(Options{Rules: []Rule{{Name: "a", Effect: Allow, What: What{Resources: []string{"files+file:///Pub/*"}}}}})
	for uri, want := range map[string]Effect{"file:///Pub/x": Allow, "file:///Pub/X": Allow, "file:///pub/x": Deny, "file:///PUB/x": Deny} {
		if d := decide(allow, anyone, resource(uri), Request{}); d.Effect != want {
			t.Errorf("%q: %s, want %s", uri, d.Effect, want)
		}
	}
}

func FuzzSpellings(f *testing.F) {
	for _, e := range evasions {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if len(uri) > 2000 {
			return
		}
		same, loose, ok := Spellings(uri)
		if !ok {
			return
		}
		if len(same)+len(loose) > 100 {
			t.Errorf("%d spellings", len(same)+len(loose))
		}
		for _, s := range append(same, loose...) {
			if s == uri {
				t.Errorf("%q is among its own spellings", uri)
			}
		}
	})
}
