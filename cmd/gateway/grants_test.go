package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// browsing is the standard output of a verb, whose user opens the URL that is printed.
type browsing struct {
	bytes.Buffer
	open func(url string)
}

var printedURL = regexp.MustCompile(`(?m)^  (http\S+)$`)

// Write implements io.Writer.
func (b *browsing) Write(p []byte) (int, error) {
	if m := printedURL.FindSubmatch(p); m != nil {
		b.open(string(m[1]))
	}
	return b.Buffer.Write(p)
}

// verb runs a verb, and returns what it prints.
func verb(t *testing.T, args ...string) string {
	t.Helper()
	stderr := new(bytes.Buffer)
	stdout := &browsing{open: func(url string) {
		go func() {
			tr := &http.Transport{DisableKeepAlives: true}
			resp, err := (&http.Client{Transport: tr}).Get(url)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
	}}
	status := run(args, strings.NewReader(""), stdout, stderr)
	return fmt.Sprintf("%s%s%d", stdout, stderr, status)
}

// newTickets starts an MCP server that requires a grant of an authorization server, and returns its URL.
func newTickets(t *testing.T, as *gatewaytest.AuthServer) (self string) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/mcp" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+self+`/meta", scope="read"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, self+"/mcp", as.URL)
	}))
	t.Cleanup(srv.Close)
	self = srv.URL
	return self
}

// TestGrantsOfTheCommand logs in, lists the grant and logs out.
func TestGrantsOfTheCommand(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, nil)
	self, dir := newTickets(t, as), t.TempDir()
	file := filepath.Join(dir, "gateway.yaml")
	configure := func(name string) {
		text := fmt.Sprintf("state_dir: %s\nupstreams:\n  %s: {url: %q, auth: {kind: user}}\n", filepath.Join(dir, "state"), name, self+"/mcp")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("tickets")

	want := func(what string, got, pattern string) {
		t.Helper()
		if !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: got\n%s\nwant %s", what, got, pattern)
		}
	}
	want("no grants", verb(t, "grants", "-c", file), `^Nobody has granted access\. .*\n0$`)
	want("no grants, JSON", verb(t, "grants", "-c", file, "--json"), `^\[\]\n0$`)
	want("logout without a grant", verb(t, "logout", "tickets", "-c", file), `you have granted no access to tickets; gateway grants -c `+file+` lists all grants\n1$`)
	want("logout of everybody without a grant", verb(t, "logout", "tickets", "-c", file, "--all"),
		`^Nobody has granted access to tickets\.\nIf the gateway has registered itself at the authorization server, it registers anew before the next grant\.\n0$`)
	want("logout of everybody from nothing", verb(t, "logout", "nobody", "-c", file, "--all"), `there is no upstream nobody; gateway grants -c `+file+` lists all grants\n1$`)
	want("logout from nothing", verb(t, "logout", "-c", file), `needs one argument, UPSTREAM, and got 0; there is no grant\n(?s:.*)\n2$`)
	want("login", verb(t, "login", "tickets", "-c", file), `^Open this URL in a browser and log in:(?s:.*)Access to tickets is granted\. A running gateway uses it within a few seconds\.\nNext: gateway list tools -c \S+ shows its tools, gateway call NAME -c \S+ calls one\.\n0$`)

	scopes := "read offline_access"
	want("grants", verb(t, "grants", "-c", file), `(?s)^UPSTREAM +GIVEN BY +GIVEN +ISSUER +SCOPES\ntickets +this machine's user +20\d\d-\d\d-\d\d \d\d:\d\d  `+regexp.QuoteMeta(as.URL)+` +`+scopes+`\n0$`)
	var listed []reportedGrant
	text := strings.TrimSuffix(verb(t, "grants", "tickets", "-c", file, "--json"), "0")
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if g := listed[0]; !g.Principal.Local || g.Issuer != as.URL || strings.Join(g.Scopes, " ") != scopes || g.Granted.IsZero() || g.Expires == nil || !g.Renewable || !g.Configured {
		t.Errorf("got %+v", g)
	}
	want("logout from what", verb(t, "logout", "-c", file), `needs one argument, UPSTREAM, and got 0; there are grants for tickets\n(?s:.*)\n2$`)
	want("another upstream", verb(t, "grants", "nobody", "-c", file), `there is no upstream nobody; gateway grants -c `+file+` lists all grants\n1$`)
	want("another principal", verb(t, "logout", "tickets", "-c", file, "--principal", "alice"), `"alice" has granted no access to tickets.*\n1$`)
	want("contradictory flags", verb(t, "logout", "tickets", "-c", file, "--principal", "alice", "--all"), `give --all, or --principal(?s:.*)\n2$`)
	want("an empty subject", verb(t, "logout", "tickets", "-c", file, "--principal", ""), `--principal is empty(?s:.*)\n2$`)

	want("logout", verb(t, "logout", "tickets", "-c", file), `^The grant of this machine's user for tickets is removed and revoked\.\nA running gateway stops using it within half a minute\.\n0$`)
	if n := as.RefreshTokens(); n != 0 {
		t.Errorf("%d refresh tokens are valid after logout", n)
	}
	want("after logout", verb(t, "grants", "-c", file), `^Nobody has granted access`)

	// A grant that the authorization server refuses is none any more, and its user reads why.
	as.SetLifetime(time.Second)
	verb(t, "login", "tickets", "-c", file)
	as.RevokeRefreshTokens()
	refused := `the authorization server refused your grant \(invalid_grant\): run gateway login tickets -c ` + file + `\n`
	polltest.Until(t, "the token expires, and its grant is refused", func() bool {
		return strings.Contains(verb(t, "check", "-c", file), "the authorization server refused your grant")
	})
	want("a refused grant", verb(t, "grants", "-c", file), `^tickets: `+refused+`0$`)
	want("a refused grant again", verb(t, "check", "-c", file), `error: tickets: \S+/mcp: `+refused)
	want("no grant of another upstream", verb(t, "grants", "tickets", "-c", file, "--json"), `^\[\]\n0$`)
	want("logout of another principal", verb(t, "logout", "tickets", "-c", file, "--principal", "alice"), `"alice" has granted no access to tickets.*\n1$`)
	want("logout of a refused grant", verb(t, "logout", "tickets", "-c", file), `^tickets: the authorization server refused your grant \(invalid_grant\); it is removed\.\n0$`)
	want("after logout of a refused grant", verb(t, "grants", "-c", file), `^Nobody has granted access`)
	want("another logout", verb(t, "logout", "tickets", "-c", file), `you have granted no access to tickets; gateway grants -c `+file+` lists all grants\n1$`)
	want("login again", verb(t, "login", "tickets", "-c", file), `Access to tickets is granted\..*\nNext: .*\n0$`)
	want("another grant", verb(t, "grants", "-c", file), `\ntickets +this[^\n]*\n0$`)
	want("logout of everybody", verb(t, "logout", "tickets", "-c", file, "--all"), `is removed and revoked\.\n.* within half a minute\.\nIf the gateway has registered itself .*\n0$`)
	want("logout forgets the refusal", verb(t, "grants", "-c", file), `^Nobody has granted access`)

	// A grant outlives the entry of its upstream, and remove says so.
	verb(t, "add", "other", "-c", file, "--", "cat") // a configuration needs an upstream
	want("remove without a grant", verb(t, "remove", "tickets", "-c", file), `^tickets is removed from \S+\.\nA gateway that runs`)
	configure("tickets")
	verb(t, "login", "tickets", "-c", file)
	verb(t, "add", "other", "-c", file, "--", "cat")
	want("remove", verb(t, "remove", "tickets", "-c", file), `^tickets is removed from \S+\.\n`+
		`The grant of this machine's user for tickets stays\. To end it: gateway logout tickets -c \S+\n`)
	verb(t, "remove", "other", "-c", file)
	want("logout after remove", verb(t, "logout", "tickets", "-c", file), `^The grant of this machine's user for tickets is removed and revoked\.\n`)
	if n := as.RefreshTokens(); n != 0 {
		t.Errorf("%d refresh tokens are valid after logout from a removed upstream", n)
	}
	configure("tickets")

	// If callers authenticate, login says that they grant for themselves.
	text = fmt.Sprintf("state_dir: %s\nauth: {mode: api-key, api_keys: [{id: ci, sha256: c%063d}]}\npolicy: {default: allow}\npublic_url: https://gateway.example\nupstreams: {tickets: {url: %q, auth: {kind: user}}}\n", filepath.Join(dir, "state"), 7, self+"/mcp")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want("login of the operator", verb(t, "login", "tickets", "-c", file), `a few seconds\.\nCallers must authenticate \(auth\.mode\), and each grants for itself, .*: this grant serves lists, and gateway stdio\.\nNext: gateway list tools -c \S+ --as SUBJECT shows `)
	// Nobody would serve the page of a link that the call makes.
	want("call without a grant", verb(t, "call", "tickets__who", "--as", "ci", "-c", file), `it needs a grant of ci, who has to call a running gateway, such as with --url, and open the page that it names`)
	configure("tickets")

	// The grant of an upstream that has another name now can be seen and removed.
	verb(t, "login", "tickets", "-c", file)
	configure("renamed")
	want("a former upstream", verb(t, "grants", "-c", file), `\ntickets \(not configured\) +this`)
	want("logout from a former upstream", verb(t, "logout", "tickets", "-c", file),
		`^The grant of this machine's user for tickets is removed and revoked\.\nA running gateway stops using it within half a minute\.\n0$`)
}

// Grants name the principal that gave them, as far as credentials do.
func TestPrincipalsOfGrants(t *testing.T) {
	for want, g := range map[string]credentials.Grant{
		"this machine's user":        {Local: true},
		"ann of https://idp.example": {Subject: "ann", PrincipalIssuer: "https://idp.example", AuthMethod: "jwt"},
		"ci (api-key)":               {Subject: "ci", AuthMethod: "api-key"},
	} {
		var out bytes.Buffer
		if err := printGrants(&out, &config.Config{}, []credentials.Grant{g}, nil); err != nil || !strings.Contains(out.String(), "  "+want+"  ") {
			t.Errorf("got %s, %v, want %s", out.String(), err, want)
		}
	}
}

func TestBrowserCommand(t *testing.T) {
	for _, tc := range []struct{ goos, env, want string }{
		{"linux", "DISPLAY=:0", "xdg-open http://x"},
		{"linux", "WAYLAND_DISPLAY=w", "xdg-open http://x"},
		{"linux", "", ""},
		{"linux", "DISPLAY=:10 SSH_CONNECTION=1", ""},
		{"darwin", "", "open http://x"},
		{"darwin", "SSH_TTY=/dev/pts/1", ""},
		{"windows", "", "rundll32 url.dll,FileProtocolHandler http://x"},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(tc.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		got := browserCommand(tc.goos, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, "http://x")
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s %q: %q, want %q", tc.goos, tc.env, got, tc.want)
		}
	}
}
