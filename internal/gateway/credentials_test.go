package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/store"
)

// credentialsTest is a gateway whose principals have tokens of an issuer.
type credentialsTest struct {
	logs     *observer.ObservedLogs
	t        *testing.T
	g        *Gateway
	idp      *gatewaytest.AuthServer
	cfg      *config.Config
	endpoint string // what follows the URL of the default profile: "/NAME" for another one
}

// startCredentials starts a gateway. upstreams is a part of the configuration, in which IDP
// stands for the issuer.
func startCredentials(t *testing.T, idp *gatewaytest.AuthServer, upstreams string, before func(cfg *config.Config)) *credentialsTest {
	t.Helper()
	return startSharing(t, idp, upstreams, nil, before)
}

// startSharing starts a gateway that shares a store with others, or none if it is nil.
func startSharing(t *testing.T, idp *gatewaytest.AuthServer, upstreams string, shared store.Store, before func(cfg *config.Config)) *credentialsTest {
	t.Helper()
	text := strings.ReplaceAll(`
auth: {mode: jwt, jwt: [{issuer: "IDP", audience: gw, login: {client_id: gw, client_secret: pass}}]}
policy: {default: allow}
upstreams:
`+upstreams, "IDP", idp.URL)
	cfg, err := config.Parse("gateway.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(t.TempDir(), "state")
	if before != nil {
		before(cfg)
	}
	core, logs := observer.New(zap.InfoLevel)
	also := zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, core) })
	g, err := New(Options{Config: cfg, Version: "test", Store: shared, Logger: zaptest.NewLogger(t, zaptest.WrapOptions(also))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &credentialsTest{t: t, g: g, idp: idp, cfg: cfg, logs: logs}
}

// tokenOf returns the token of a principal.
func (c *credentialsTest) tokenOf(who string) string {
	return c.idp.Token("gw", map[string]any{"sub": who})
}

// in returns the same test with clients in a profile.
func (c *credentialsTest) in(profile string) *credentialsTest {
	d := *c
	d.endpoint = "/" + profile
	return &d
}

// post sends a request and returns the header, and the last message of the answer.
func (c *credentialsTest) post(token, body string, header ...string) (http.Header, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.g.URL()+c.endpoint, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if i := strings.LastIndex(string(text), "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	return resp.Header, string(text)
}

// modern calls a tool as a modern client with capabilities. more are further members of
// params.
func (c *credentialsTest) modern(token, tool, capabilities, more string) string {
	c.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":%s}}}`, tool, more, capabilities)
	_, text := c.post(token, body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	return text
}

// legacy opens a session for a client with capabilities, and returns a function that calls
// a tool in it.
func (c *credentialsTest) legacy(token, capabilities string) (session string, call func(tool string) string) {
	c.t.Helper()
	header, text := c.post(token, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+
		capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	session = header.Get("Mcp-Session-Id")
	if session == "" {
		c.t.Fatalf("initialize: %s", text)
	}
	c.post(token, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", session)
	return session, func(tool string) string {
		c.t.Helper()
		_, text := c.post(token, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+tool+`"}}`, "Mcp-Session-Id", session)
		return text
	}
}

// wantText checks that an answer contains a text.
func wantText(t *testing.T, answer, want string) {
	t.Helper()
	if !strings.Contains(answer, want) {
		t.Errorf("got %s, want %s", answer, want)
	}
}

const opensURLs = `{"elicitation":{"form":{},"url":{}}}`

// TestTokensToUpstreams runs each kind of credentials against real servers of both eras,
// with two principals. Nothing that an upstream receives contains a token of a client.
func TestTokensToUpstreams(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	ofIdP := map[string]*vault{"own": newVault(t, idp, true), "oldown": newVault(t, idp, false), "swap": newVault(t, idp, true), "oldswap": newVault(t, idp, false)}
	ofAS := map[string]*vault{"firm": newVault(t, as, true), "oldfirm": newVault(t, as, false)}
	text := ""
	for name, v := range ofIdP {
		kind := "client-credentials"
		if strings.HasSuffix(name, "swap") {
			kind = "token-exchange"
		}
		text += fmt.Sprintf("  %s: {url: %q, headers: {X-User: '{{principal.subject}}'}, auth: {kind: %s, client_id: gw, client_secret: pass, issuer: IDP}}\n", name, v.url, kind)
	}
	for name, v := range ofAS {
		text += fmt.Sprintf("  %s: {url: %q, headers: {X-User: 'u-{{principal.subject}}'}, auth: {kind: enterprise, client_id: gw, client_secret: pass, issuer: %q, idp: {issuer: IDP, client_id: gw, client_secret: pass}}}\n", name, v.url, as.URL)
	}
	c := startCredentials(t, idp, text, nil)
	var brought []string
	for _, who := range []string{"ann", "bob", "ann"} {
		token := c.tokenOf(who)
		brought = append(brought, token)
		_, legacy := c.legacy(token, `{}`)
		for name, want := range map[string]string{
			"own": "gw as " + who, "oldown": "gw as " + who, "swap": who + " as " + who, "oldswap": who + " as " + who,
			"firm": who + " as u-" + who, "oldfirm": who + " as u-" + who,
		} {
			wantText(t, c.modern(token, name+"__who", `{}`, ""), `"text":"`+want+`"`)
			wantText(t, legacy(name+"__who"), `"text":"`+want+`"`)
		}
	}
	for _, all := range []map[string]*vault{ofIdP, ofAS} {
		for name, v := range all {
			v.mu.Lock()
			for _, h := range v.seen {
				for _, token := range brought {
					if strings.Contains(fmt.Sprint(h), token) {
						t.Fatalf("%s received a header of the client: %v", name, h)
					}
				}
			}
			v.mu.Unlock()
		}
	}
}

// A claim that is absent fails the call that needs it, and no other.
func TestAbsentClaim(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	v := newVault(t, idp, true)
	c := startCredentials(t, idp, fmt.Sprintf("  up: {url: %q, headers: {X-User: '{{principal.claims.mail}}'}, auth: {kind: client-credentials, client_id: gw, client_secret: pass, issuer: IDP}}\n", v.url), nil)
	wantText(t, c.modern(idp.Token("gw", map[string]any{"mail": "ann@example.com"}), "up__who", `{}`, ""), `"text":"gw as ann@example.com"`)
	wantText(t, c.modern(idp.Token("gw", nil), "up__who", `{}`, ""), `"reason":"the header X-User cannot be sent: the caller has no principal.claims.mail`)
	wantText(t, c.modern(idp.Token("gw", map[string]any{"mail": "a\r\nX-Admin: 1"}), "up__who", `{}`, ""), `has characters that a header must not contain`)
}

// browse opens a URL in a new browser and returns the last page.
func browse(t *testing.T, url string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := b.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// logIn makes the grant with which the gateway gathers lists.
func logIn(t *testing.T, names ...string) func(cfg *config.Config) {
	return func(cfg *config.Config) {
		for _, name := range names {
			pages := make(chan string, 1)
			err := Login(t.Context(), cfg, name, 0, func(url string) { go func() { pages <- browse(t, url) }() })
			if page := <-pages; err != nil || !strings.Contains(page, "is granted") {
				t.Fatalf("%v: %s", err, page)
			}
		}
	}
}

// urlAsked returns the URL that a client is asked to open, with the state and the key of
// its retry.
func urlAsked(t *testing.T, answer string) (url, state, key string) {
	t.Helper()
	var m struct {
		Result struct {
			ResultType, RequestState string
			InputRequests            map[string]struct {
				Params struct{ Mode, URL, Message string }
			}
		}
		Error struct {
			Code int
			Data struct {
				Elicitations []struct{ Mode, URL, Message, ElicitationID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if m.Error.Code == -32042 && len(m.Error.Data.Elicitations) == 1 {
		return m.Error.Data.Elicitations[0].URL, "", m.Error.Data.Elicitations[0].ElicitationID
	}
	for key, r := range m.Result.InputRequests {
		if r.Params.Mode == "url" && m.Result.ResultType == "input_required" {
			return r.Params.URL, m.Result.RequestState, key
		}
	}
	t.Fatalf("no question: %s", answer)
	return "", "", ""
}

// TestGrantsOfUsers asks users for grants in the way of each era.
func TestGrantsOfUsers(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	fresh, old := newVault(t, as, true, "use"), newVault(t, as, false, "use")
	as.SetUser("service")
	upstreams := fmt.Sprintf("  fresh: {url: %q, auth: {kind: user}}\n  old: {url: %q, auth: {kind: user}}\n", fresh.url, old.url)
	c := startCredentials(t, idp, upstreams, logIn(t, "fresh", "old"))

	ann, bob := c.tokenOf("ann"), c.tokenOf("bob")
	t.Run("a modern client", func(t *testing.T) {
		for _, name := range []string{"fresh", "old"} {
			asked := c.modern(ann, name+"__who", opensURLs, "")
			link, state, key := urlAsked(t, asked)
			wantText(t, asked, `"message":"`+name+`: Open this page`)
			idp.SetUser("bob")
			wantText(t, browse(t, link), "for another user than the one who is logged in")
			idp.SetUser("ann")
			as.SetUser("ann at " + name)
			again := fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept"}}`, state, key)
			early, _, _ := urlAsked(t, c.modern(ann, name+"__who", opensURLs, again)) // an early retry gets the question again
			if early != link {
				t.Errorf("another link: %s, %s", link, early)
			}
			wantText(t, browse(t, link), "Access to "+name+" is granted")
			wantText(t, c.modern(ann, name+"__who", opensURLs, again), `"text":"ann at `+name+` as "`)
			for _, line := range []string{"no grant was given", "a grant was given"} {
				if c.logs.FilterMessage(line).FilterField(zap.String("upstream", name)).FilterField(zap.String("principal", "ann")).Len() != 1 {
					t.Errorf("%s: %q is not logged with the principal: %v", name, line, c.logs.FilterMessage(line).All())
				}
			}
		}
	})
	t.Run("a legacy client", func(t *testing.T) {
		session, call := c.legacy(bob, opensURLs)
		idp.SetUser("bob")
		for _, name := range []string{"fresh", "old"} {
			as.SetUser("bob at " + name)
			link, _, id := urlAsked(t, call(name+"__who"))
			messages := c.listen(bob, session)
			wantText(t, browse(t, link), "Access to "+name+" is granted")
			for message := range messages { // list changes may arrive first
				if strings.Contains(message, "elicitation/complete") {
					wantText(t, message, `{"method":"notifications/elicitation/complete","params":{"elicitationId":"`+id+`"}`)
					break
				}
			}
			wantText(t, call(name+"__who"), `"text":"bob at `+name+` as "`)
		}
	})
	t.Run("clients that open no URLs", func(t *testing.T) {
		carl := c.tokenOf("carl")
		_, call := c.legacy(carl, `{"elicitation":{}}`)
		refused := call("fresh__who")
		wantText(t, refused, "use a client that can open one (URL elicitation)")
		wantText(t, refused, `"requiredCapabilities":{"elicitation":{"url":{}}}`)
		wantText(t, c.modern(carl, "old__who", `{}`, ""), `"code":-32021,"message":"upstream old needs its user to open a page, and the client cannot: it did not declare elicitation.url","data":{"requiredCapabilities":{"elicitation":{"url":{}}},"requestId":`)
		calls := c.logs.FilterMessage("call").FilterField(zap.String("principal", "carl")).FilterField(zap.String("outcome", "url_required")).All()
		if len(calls) != 2 || calls[0].ContextMap()["reason"] == nil || calls[1].ContextMap()["reason"] == nil {
			t.Errorf("the log has %v", calls)
		}
	})
	t.Run("another process", func(t *testing.T) {
		other := startCredentials(t, idp, upstreams, func(cfg *config.Config) { cfg.StateDir = c.cfg.StateDir })
		for _, name := range []string{"fresh", "old"} {
			wantText(t, other.modern(bob, name+"__who", opensURLs, ""), `"text":"bob at `+name)
		}
	})
}

// Without authentication a legacy client that opens no URLs reads which command helps, and which capability gets the page.
func TestGrantsWithoutAuthentication(t *testing.T) {
	idp, as := gatewaytest.NewAuthServer(t, nil), gatewaytest.NewAuthServer(t, nil)
	server := newVault(t, as, true, "use")
	c := startCredentials(t, idp, fmt.Sprintf("  v: {url: %q, auth: {kind: user}}\n", server.url), func(cfg *config.Config) {
		cfg.Auth = config.Auth{Mode: []config.AuthMode{config.AuthNone}}
	})
	_, call := c.legacy("", `{}`)
	refused := call("v__who")
	wantText(t, refused, `"reason":"it needs a grant of its user: run gateway login v, then call again"`)
	wantText(t, refused, `"requiredCapabilities":{"elicitation":{"url":{}}}`)
	_, call = c.legacy("", opensURLs)
	link, _, _ := urlAsked(t, call("v__who"))
	wantText(t, browse(t, link), "Access to v is granted")
}

// A call that needs a further scope asks for a wider grant. Other calls go on.
func TestGrantThatDoesNotReachFarEnough(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	v := newVault(t, as, true, "use")
	as.SetUser("service")
	c := startCredentials(t, idp, fmt.Sprintf("  up: {url: %q, auth: {kind: user}}\n", v.url), logIn(t, "up"))
	ann := c.tokenOf("ann")
	idp.SetUser("ann")
	as.SetUser("ann")
	link, _, _ := urlAsked(t, c.modern(ann, "up__who", opensURLs, ""))
	wantText(t, browse(t, link), "Access to up is granted")
	wantText(t, c.modern(ann, "up__who", opensURLs, ""), `"text":"ann as "`)

	link, _, _ = urlAsked(t, c.modern(ann, "up__write", opensURLs, ""))
	wantText(t, c.modern(ann, "up__who", opensURLs, ""), `"text":"ann as "`)
	if again, _, _ := urlAsked(t, c.modern(ann, "up__write", opensURLs, "")); again != link {
		t.Errorf("another link: %s, %s", link, again)
	}
	wantText(t, browse(t, link), "Access to up is granted")
	for _, tool := range []string{"up__write", "up__who"} {
		wantText(t, c.modern(ann, tool, opensURLs, ""), `"text":"ann as "`)
	}
}

// listen opens the stream of a session, and returns its first messages.
func (c *credentialsTest) listen(token, session string) <-chan string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.g.URL()+c.endpoint, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	messages := make(chan string, 16)
	go func() {
		defer close(messages)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && data != "" {
				select {
				case messages <- strings.Replace(data, `"jsonrpc":"2.0",`, "", 1):
				default: // the buffer is larger than any test needs
				}
			}
		}
	}()
	return messages
}

// Login refuses unknown upstreams and upstreams without grants of users, and names the others. It says what to do about a server without
// any metadata of OAuth.
func TestLoginRefusesOtherUpstreams(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, nil)
	v := newVault(t, as, true)
	cfg, err := config.Parse("gateway.yaml", []byte(fmt.Sprintf("upstreams:\n  up: {url: %q, auth: {kind: user}}\n  other: {command: x}\n", v.url)), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.StateDir = t.TempDir()
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(bare.Close)
	for name, at := range map[string]string{"bare": bare.URL + "/mcp", "keyed": bare.URL + "/mcp?key=k"} {
		u := cfg.Upstreams[0]
		u.Name, u.URL = name, at
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	const names = "the server names no authorization server, and has no metadata of one itself (HTTP 404); if it does not use OAuth, "
	const issuer = "; if it does, set auth.issuer of the upstream to the URL of its authorization server"
	for name, want := range map[string]string{
		"bare":  names + "run gateway add bare " + bare.URL + "/mcp --header 'Authorization: Bearer KEY' --replace" + issuer,
		"keyed": names + "set headers in place of auth" + issuer,
		"other": "other is a program, which has what it needs from its env", "nobody": "you can log in to ",
	} {
		if err := Login(t.Context(), cfg, name, 0, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
