package gateway

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/gatewaytest"
)

// profilesYAML is a configuration over the demo upstreams, one for each profile.
func profilesYAML(more string) string {
	return `
allowed_hosts: [gw.example.com]
auth:
  mode: api-key
  api_keys:
    - {id: ann, sha256: ` + digestOf("ann") + `}
    - {id: dev, sha256: ` + digestOf("dev") + `, groups: [dev]}
    - {id: ci, sha256: ` + digestOf("ci") + `, groups: [dev], profiles: [ops]}
    - {id: old, sha256: ` + digestOf("old") + `, profiles: [default]}
policy: {default: allow}
upstreams: {cafe: {command: x}, clock: {command: x}, notes: {command: x}}
profiles:
  coding: {upstreams: [clock], groups: [dev]}
  ops: {upstreams: [notes], hosts: [ops.example.com]}
` + more
}

// endpointTest sends requests of both eras to endpoints of a gateway.
type endpointTest struct {
	t *testing.T
	g *Gateway
}

// exchange sends a request that names its target, Host and key, and returns the status, the
// header and the body. The connection is one of its own.
func (e endpointTest) exchange(method, target string, hosts []string, key, body string, more ...string) (int, http.Header, string) {
	e.t.Helper()
	head := method + " " + target + " HTTP/1.1\r\n"
	for _, h := range hosts {
		head += "Host: " + h + "\r\n"
	}
	if key != "" {
		head += "X-Api-Key: " + key + "\r\n"
	}
	for _, line := range more {
		head += line + "\r\n"
	}
	head += fmt.Sprintf("Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body))
	c, err := net.Dial("tcp", e.g.Addr())
	if err != nil {
		e.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, head+body); err != nil {
		e.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

const (
	legacyList = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	modernList = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`
)

var modernHeaders = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"}

// profileOf returns the profile that a request gets, by the upstreams that it sees: "-" for
// none. Both eras get the same.
func (e endpointTest) profileOf(target, host, key string, more ...string) string {
	e.t.Helper()
	legacy := e.seen(e.exchange(http.MethodPost, target, []string{host}, key, legacyList, more...))
	modern := e.seen(e.exchange(http.MethodPost, target, []string{host}, key, modernList, append(modernHeaders, more...)...))
	if legacy != modern {
		e.t.Errorf("%s at %s: %s for legacy clients, %s for modern ones", target, host, legacy, modern)
	}
	return legacy
}

func (e endpointTest) seen(status int, _ http.Header, body string) string {
	if status == http.StatusNotFound && strings.HasPrefix(body, "nothing is here") {
		return "-"
	}
	var all []string
	for upstream, tool := range map[string]string{"cafe": "cafe__menu", "clock": "clock__now", "notes": "notes__search"} {
		if strings.Contains(body, `"`+tool+`"`) {
			all = append(all, upstream)
		}
	}
	slices.Sort(all)
	profile, ok := map[string]string{"cafe clock notes": "default", "clock": "coding", "notes": "ops"}[strings.Join(all, " ")]
	if !ok {
		return fmt.Sprintf("%d %.300s", status, body)
	}
	return profile
}

func TestWhichProfileARequestGets(t *testing.T) {
	g, _ := start(t, profilesYAML(""), true)
	e := endpointTest{t, g}
	const gw = "gw.example.com"
	for _, tt := range []struct{ target, host, key, want string }{
		{"/mcp", gw, "ann", "default"},
		{"/mcp/default", gw, "ann", "default"},
		{"/mcp/coding", gw, "ann", "coding"},
		{"/mcp/coding?x=1", gw, "ann", "coding"},
		{"/mcp/ops", gw, "ann", "ops"},
		{"/mcp", gw, "dev", "coding"},
		{"/mcp/default", gw, "dev", "coding"},
		{"/mcp/ops", gw, "dev", "ops"},
		{"/mcp", "ops.example.com", "ann", "ops"},
		{"/mcp", "ops.example.com", "dev", "ops"},
		{"/mcp/coding", "ops.example.com", "dev", "coding"},

		{"/mcp", gw, "ci", "ops"},
		{"/mcp/default", gw, "ci", "ops"},
		{"/mcp/ops", gw, "ci", "ops"},
		{"/mcp/coding", gw, "ci", "-"},
		{"/mcp", "ops.example.com", "old", "default"},
		{"/mcp/ops", gw, "old", "-"},
		{"/mcp/none", gw, "ann", "-"},

		// Spellings of the path.
		{"/mcp//coding", gw, "ann", "-"},
		{"//mcp/coding", gw, "ann", "-"},
		{"/mcp/coding/", gw, "ann", "-"},
		{"/mcp/", gw, "ann", "-"},
		{"/mcp/%63oding", gw, "ann", "-"},
		{"/mcp%2Fcoding", gw, "ann", "-"},
		{"/%6dcp", gw, "ann", "-"},
		{"/mcp/Coding", gw, "ann", "-"},
		{"/mcp/./coding", gw, "ann", "-"},
		{"/mcp/ops/../coding", gw, "ann", "-"},
		{"/mcp/coding;x", gw, "ann", "-"},

		// Spellings of the host.
		{"/mcp", "OPS.Example.COM", "ann", "ops"},
		{"/mcp", "ops.example.com.", "ann", "ops"},
		{"/mcp", "ops.example.com:8443", "ann", "ops"},
		{"/mcp", "ops.example.com.:8443", "ann", "ops"},
		// The target in absolute form names the host (RFC 9112, section 3.2.2).
		{"http://ops.example.com/mcp", gw, "ann", "ops"},
		{"http://gw.example.com/mcp", "ops.example.com", "ann", "default"},
		{"http://ops.example.com/mcp/coding", gw, "ci", "-"},
	} {
		if got := e.profileOf(tt.target, tt.host, tt.key); got != tt.want {
			t.Errorf("%s at %s by %s: %s, want %s", tt.target, tt.host, tt.key, got, tt.want)
		}
	}
	if status, _, body := e.exchange(http.MethodPost, "/mcp", []string{gw, "ops.example.com"}, "ann", legacyList); status != http.StatusBadRequest {
		t.Errorf("two Hosts: %d %s", status, body)
	}
	// Only configured Hosts are served, as without profiles.
	if status, _, body := e.exchange(http.MethodPost, "/mcp/ops", []string{"ops.example.com.evil.example"}, "ann", legacyList); status != http.StatusForbidden {
		t.Errorf("another Host: %d %s", status, body)
	}
	// A header of a proxy counts only if the proxy is trusted.
	if got := e.profileOf("/mcp", gw, "ann", "X-Forwarded-Host: ops.example.com"); got != "default" {
		t.Errorf("with X-Forwarded-Host of a stranger: %s", got)
	}
}

func TestForwardedHostChoosesTheProfile(t *testing.T) {
	g, _ := start(t, profilesYAML("trusted_proxies: [127.0.0.1]"), true)
	e := endpointTest{t, g}
	for header, want := range map[string]string{
		"X-Forwarded-Host: ops.example.com":                 "ops",
		"X-Forwarded-Host: OPS.example.com:443":             "ops",
		"X-Forwarded-Host: ops.example.com, gw.example.com": "default", // the last proxy counts
	} {
		if got := e.profileOf("/mcp", "gw.example.com", "ann", header); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

// A profile that the principal may not use answers like one that does not exist, to the byte.
func TestForbiddenProfileLooksAbsent(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	g, _ := startLogged(t, profilesYAML("allowed_origins: [https://app.example.com]"), true, zap.New(core))
	e := endpointTest{t, g}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for _, more := range [][]string{nil, {"Origin: https://app.example.com"}, {"Mcp-Session-Id: x"}} {
			body := ""
			if method == http.MethodPost {
				body = initialize
			}
			status, header, forbidden := e.exchange(method, "/mcp/coding", []string{"gw.example.com"}, "ci", body, more...)
			unknownStatus, unknownHeader, unknown := e.exchange(method, "/mcp/none", []string{"gw.example.com"}, "ci", body, more...)
			elsewhere, _, other := e.exchange(method, "/other", []string{"gw.example.com"}, "ci", body, more...)
			for _, name := range []string{"X-Request-Id", "Date"} {
				if header.Get(name) == "" || unknownHeader.Get(name) == "" {
					t.Errorf("%s: no %s", method, name)
				}
				header.Del(name)
				unknownHeader.Del(name)
			}
			if status != http.StatusNotFound || status != unknownStatus || status != elsewhere || forbidden != unknown || forbidden != other || !maps.EqualFunc(header, unknownHeader, slices.Equal) {
				t.Errorf("%s with %q:\nforbidden %d %v %s\nunknown %d %v %s\nelsewhere %d %s", method, more, status, header, forbidden, unknownStatus, unknownHeader, unknown, elsewhere, other)
			}
		}
	}
	// Before the principal is known, a profile answers everyone in the same way.
	for _, tt := range []struct {
		method, host, key, origin string
		want                      int
	}{
		{http.MethodOptions, "gw.example.com", "ci", "https://app.example.com", http.StatusNoContent},
		{http.MethodPost, "gw.example.com", "ci", "https://evil.example.com", http.StatusForbidden},
		{http.MethodPost, "evil.example.com", "ci", "https://app.example.com", http.StatusForbidden},
		{http.MethodPost, "gw.example.com", "wrong", "https://app.example.com", http.StatusUnauthorized},
	} {
		body := ""
		if tt.method == http.MethodPost {
			body = initialize
		}
		if status, _, _ := e.exchange(tt.method, "/mcp/coding", []string{tt.host}, tt.key, body, "Origin: "+tt.origin); status != tt.want {
			t.Errorf("%+v: got %d", tt, status)
		}
	}
	refused := logs.FilterMessage("request refused").FilterField(zap.String("kind", "endpoint")).All()
	if len(refused) == 0 || refused[0].ContextMap()["principal"] != "ci" || refused[0].ContextMap()["path"] != "/mcp/coding" {
		t.Errorf("the log has %v", refused)
	}
}

// A session of one profile is unknown in another.
func TestSessionOfAnotherProfile(t *testing.T) {
	g, _ := start(t, profilesYAML(""), true)
	e := endpointTest{t, g}
	hosts := []string{"gw.example.com"}
	status, header, body := e.exchange(http.MethodPost, "/mcp/coding", hosts, "ann", initialize)
	session := "Mcp-Session-Id: " + header.Get("Mcp-Session-Id")
	if status != http.StatusOK {
		t.Fatal(status, body)
	}
	for _, path := range []string{"/mcp", "/mcp/default", "/mcp/ops"} {
		for method, body := range map[string]string{http.MethodPost: legacyList, http.MethodGet: "", http.MethodDelete: ""} {
			if status, _, answer := e.exchange(method, path, hosts, "ann", body, session); status != http.StatusNotFound || strings.Contains(answer, "coding") {
				t.Errorf("%s %s: %d %s", method, path, status, answer)
			}
		}
	}
	if got := e.seen(e.exchange(http.MethodPost, "/mcp/coding", hosts, "ann", legacyList, session)); got != "coding" {
		t.Errorf("at its own endpoint: %s", got)
	}
}

// Each endpoint has a page of its own, with its URL.
func TestPagesOfProfiles(t *testing.T) {
	g, _ := start(t, profilesYAML("public_url: https://mcp.example.com/base"), true)
	for _, tt := range []struct{ path, host, want string }{
		{"/mcp/coding", "", "https://mcp.example.com/base/mcp/coding"},
		{"/mcp", "ops.example.com", "https://ops.example.com/base/mcp<"},
		{"/", "ops.example.com", "https://ops.example.com/base/mcp<"},
		{"/mcp", "", "https://mcp.example.com/base/mcp<"},
	} {
		if res, text := openPage(t, g, tt.path, tt.host); res.StatusCode != http.StatusOK || !strings.Contains(text, tt.want) {
			t.Errorf("%+v: %s %s", tt, res.Status, text)
		}
	}
	if res, text := openPage(t, g, "/mcp/none", ""); res.StatusCode != http.StatusNotFound || strings.Contains(text, "<html") {
		t.Errorf("an unknown profile: %s %s", res.Status, text)
	}
}

// Profiles, their hosts and groups, and pins of keys change without a restart.
func TestReloadOfEndpoints(t *testing.T) {
	source := newScripted(t, "one")
	config := func(keys, profiles string) string {
		return "auth: {mode: api-key, api_keys: [" + keys + "]}\npolicy: {default: allow}\nupstreams: {a: " + source.entry("") + "}\n" + profiles
	}
	ann := "id: ann, groups: [dev], sha256: " + digestOf("ann")
	g, _ := start(t, config("{"+ann+"}", ""), false)
	e := endpointTest{t, g}
	status := func(path, host string) int {
		t.Helper()
		status, _, _ := e.exchange(http.MethodPost, path, []string{host}, "ann", legacyList)
		return status
	}
	shows := func(path, host string) bool {
		t.Helper()
		_, _, body := e.exchange(http.MethodPost, path, []string{host}, "ann", legacyList)
		return strings.Contains(body, "a__one")
	}
	reload := func(keys, profiles string) {
		t.Helper()
		if changes, err := reloaded(t, g, config(keys, profiles)); err != nil || len(changes.Restart) > 0 {
			t.Fatal(changes, err)
		}
	}
	if got := status("/mcp/coding", "localhost"); got != http.StatusNotFound {
		t.Errorf("before there is a profile: %d", got)
	}
	if got := status("/mcp", "empty.example.com"); got != http.StatusForbidden {
		t.Errorf("before the host is known: %d", got)
	}
	reload("{"+ann+"}", `profiles: {coding: {}, empty: {tools: [], hosts: [empty.example.com]}}`)
	if !shows("/mcp/coding", "localhost") || !shows("/mcp", "localhost") || shows("/mcp/empty", "localhost") || shows("/mcp", "empty.example.com") || status("/mcp", "empty.example.com") != http.StatusOK {
		t.Error("new profiles are not served")
	}
	_, header, _ := e.exchange(http.MethodPost, "/mcp", []string{"localhost"}, "ann", initialize)
	reload("{"+ann+"}", `profiles: {coding: {}, empty: {tools: [], groups: [dev]}}`)
	if shows("/mcp", "localhost") || status("/mcp", "empty.example.com") != http.StatusForbidden {
		t.Error("groups and hosts have not changed")
	}
	if status, _, body := e.exchange(http.MethodPost, "/mcp", []string{"localhost"}, "ann", legacyList, "Mcp-Session-Id: "+header.Get("Mcp-Session-Id")); status != http.StatusNotFound {
		t.Errorf("a session of the profile before: %d %s", status, body)
	}
	reload("{"+ann+", profiles: [coding]}", `profiles: {coding: {}, empty: {tools: [], groups: [dev]}}`)
	if !shows("/mcp", "localhost") || status("/mcp/empty", "localhost") != http.StatusNotFound {
		t.Error("the pin has no effect")
	}
	reload("{"+ann+"}", "")
	if !shows("/mcp", "localhost") || status("/mcp/coding", "localhost") != http.StatusNotFound {
		t.Error("removed profiles are served")
	}
}

// A profile that serves one era refuses clients of the other with the revisions that are
// served.
func TestErasOfProfiles(t *testing.T) {
	g, _ := start(t, `
upstreams: {cafe: {command: x}, clock: {command: x}, notes: {command: x}}
profiles: {old: {eras: legacy}, new: {eras: [modern]}, both: {eras: [legacy, modern]}, default: {hosts: [old.example.com]}}
`, true)
	e := endpointTest{t, g}
	hosts := []string{"localhost"}
	const legacyRevisions = `["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
	discover := strings.Replace(modernList, "tools/list", "server/discover", 1)
	discovers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: server/discover"}
	for _, tt := range []struct {
		path, body string
		more       []string
		status     int
		want       string
	}{
		{"/mcp/old", initialize, nil, 200, `"protocolVersion":"2025-11-25"`},
		{"/mcp/old", legacyList, nil, 200, "cafe__menu"},
		{"/mcp/old", discover, discovers, 400, `"code":-32022,"message":"unsupported protocol version \"2026-07-28\"","data":{"supported":` + legacyRevisions + `,"requested":"2026-07-28"`},
		{"/mcp/old", modernList, modernHeaders, 400, `"supported":` + legacyRevisions},
		{"/mcp/new", discover, discovers, 200, `"supportedVersions":["2026-07-28"]`},
		{"/mcp/new", modernList, modernHeaders, 200, "cafe__menu"},
		{"/mcp/new", initialize, nil, 400, `"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"`},
		{"/mcp/new", legacyList, nil, 400, `"supported":["2026-07-28"]`},
		{"/mcp/new", `[` + legacyList + `]`, nil, 400, `"supported":["2026-07-28"]`},
		{"/mcp/new", legacyList, []string{"Mcp-Session-Id: x"}, 404, "initialize"},
		{"/mcp/both", initialize, nil, 200, `"protocolVersion":"2025-11-25"`},
		{"/mcp/both", discover, discovers, 200, `"supportedVersions":["2026-07-28","2025-11-25"`},
		{"/mcp", discover, discovers, 200, `"supportedVersions":["2026-07-28","2025-11-25"`},
	} {
		if status, _, body := e.exchange(http.MethodPost, tt.path, hosts, "", tt.body, tt.more...); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: %d %s; want %d with %s", tt.path, tt.body, status, body, tt.status, tt.want)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, header, body := e.exchange(method, "/mcp/new", hosts, "", "", "Mcp-Session-Id: x"); status != http.StatusMethodNotAllowed || header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %v %s", method, status, header, body)
		}
	}
}

// The profile of a request costs no allocation.
func TestAuthenticationInProfileAllocations(t *testing.T) {
	g, end := start(t, profilesYAML(""), true)
	end() // what else runs would count
	for key, path := range map[string]string{"ann": "/mcp/coding", "dev": "/mcp", "ci": "/mcp/ops"} {
		r, err := http.NewRequest(http.MethodPost, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "gw.example.com:8080"
		r.Header.Set("X-Api-Key", key)
		if n := testing.AllocsPerRun(100, func() {
			if p, err := g.authenticate(r); err != nil || p.Profile == "" {
				t.Fatal(p, err)
			}
		}); n > 0 {
			t.Errorf("%s at %s: %v allocations", key, path, n)
		}
	}
}

// The Host chooses the profile over HTTP/2 too, and the rules for certificates, with their pins,
// change without a restart.
func TestProfilesOfCertificatesOverHTTP2(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	ca.WriteFiles(dir)
	yaml := func(pins string) string {
		return fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem, client_ca: %[1]s/ca.pem}\n", dir) +
			"auth: {mode: mtls, mtls: [{cn: 'agent-*'" + pins + "}]}\npolicy: {default: allow}\n" + aDisabledUpstream +
			"profiles: {coding: {}, ops: {hosts: [ops.example.com]}}\n"
	}
	g, _ := start(t, yaml(""), false)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "agent-7" })},
	}}
	defer transport.CloseIdleConnections()
	do := func(path, host, session, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(g.URL(), pathMCP)+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		r.Host = host
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Errorf("served over %s", resp.Proto)
		}
		return resp
	}
	expect := func(path, host, session string, want int) {
		t.Helper()
		if got := do(path, host, session, legacyList); got.StatusCode != want {
			t.Errorf("%s at %q: %s, want %d", path, host, got.Status, want)
		}
	}
	session := do("/mcp/ops", "", "", initialize).Header.Get("Mcp-Session-Id")
	expect("/mcp", "OPS.example.com.:443", session, http.StatusOK)
	expect("/mcp", "", session, http.StatusNotFound)
	expect("/mcp/coding", "ops.example.com", session, http.StatusNotFound)

	for _, pins := range []string{", profiles: [coding]", ", profiles: [coding, default]"} {
		if changes, err := reloaded(t, g, yaml(pins)); err != nil || len(changes.Restart) > 0 {
			t.Fatal(changes, err)
		}
		expect("/mcp/ops", "", "", http.StatusNotFound)
		expect("/mcp/coding", "", "", http.StatusOK)
	}
	if _, err := reloaded(t, g, yaml("")); err != nil {
		t.Fatal(err)
	}
	expect("/mcp/ops", "", "", http.StatusOK)
	expect("/mcp/ops", "", session, http.StatusNotFound) // it ended with the rule that gave it
}

// HTTP+SSE has the same choice as /mcp; pages of configured origins may call all endpoints.
func TestProfilesBySSEAndAcrossOrigins(t *testing.T) {
	g, _ := start(t, profilesYAML("allowed_origins: [https://app.example.com]"), true)
	e := endpointTest{t, g}
	c, err := net.Dial("tcp", g.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /sse HTTP/1.1\r\nHost: ops.example.com\r\nX-Api-Key: ann\r\nAccept: text/event-stream\r\n\r\n")
	stream := bufio.NewReader(c)
	line := func(with string) string {
		t.Helper()
		for {
			text, err := stream.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, with) {
				return strings.TrimSpace(text)
			}
		}
	}
	messages := strings.TrimPrefix(line("/sse/message"), "data: ")
	for _, host := range []string{"gw.example.com", "ops.example.com"} { // the first one is another profile
		want := http.StatusAccepted
		if host == "gw.example.com" {
			want = http.StatusNotFound
		}
		if status, _, body := e.exchange(http.MethodPost, messages, []string{host}, "ann", initialize); status != want {
			t.Errorf("a message at %s: %d %s", host, status, body)
		}
	}
	line(`"protocolVersion"`)
	if status, _, body := e.exchange(http.MethodPost, messages, []string{"ops.example.com"}, "ann", legacyList); status != http.StatusAccepted {
		t.Errorf("a list: %d %s", status, body)
	}
	if got := e.seen(http.StatusOK, nil, line(`"tools":[`)); got != "ops" {
		t.Errorf("the list is that of %s", got)
	}

	preflight := []string{"Origin: https://app.example.com", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type"}
	for path, want := range map[string]int{"/mcp": 204, "/mcp/coding": 204, "/mcp/none": 404} {
		status, header, _ := e.exchange(http.MethodOptions, path, []string{"gw.example.com"}, "", "", preflight...)
		if allowed := header.Get("Access-Control-Allow-Origin"); status != want || (allowed != "") != (want == 204) {
			t.Errorf("preflight of %s: %d %v", path, status, header)
		}
	}
	if status, _, body := e.exchange(http.MethodPost, "/mcp/coding", []string{"gw.example.com"}, "ann", legacyList, "Origin: https://evil.example"); status != http.StatusForbidden {
		t.Errorf("a page of another origin: %d %s", status, body)
	}
}
