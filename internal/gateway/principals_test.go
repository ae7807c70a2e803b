package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// shop is an MCP server with a list of tools for each user: one tool with the user's name,
// and the tools that the test gives to the user.
type shop struct {
	url       string
	stateless bool

	mu    sync.Mutex
	users map[string]*mcp.Server
}

// newShop returns a shop that refuses the named users.
func newShop(t *testing.T, as *gatewaytest.AuthServer, stateless bool, refused ...string) *shop {
	t.Helper()
	s := &shop{stateless: stateless, users: make(map[string]*mcp.Server)}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	s.url = srv.URL + "/mcp"
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		sub, scopes, ok := as.TokenSubject(token, s.url)
		if !ok || slices.Contains(refused, sub) {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: sub, Scopes: scopes, Expiration: time.Now().Add(time.Minute)}, nil
	}
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return s.of(auth.TokenInfoFromContext(r.Context()).UserID)
	}, &mcp.StreamableHTTPOptions{Stateless: stateless})
	metadata := srv.URL + "/.well-known/oauth-protected-resource/mcp"
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata})(handler))
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: s.url, AuthorizationServers: []string{as.URL},
	}))
	return s
}

// of returns the server with the tools of a user.
func (s *shop) of(user string) *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[user] == nil {
		s.users[user] = mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
		give(s.users[user], "of_"+user)
		prompt(s.users[user], "hello")
	}
	return s.users[user]
}

func prompt(to *mcp.Server, name string) {
	to.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
}

func give(to *mcp.Server, tool string) {
	to.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: tool + " for " + r.Extra.TokenInfo.UserID}}}, nil
	})
}

var toolName = regexp.MustCompile(`"name":"([a-z]+__[a-z_]+)"`)

// list returns the list of a modern client.
func (c *credentialsTest) list(token string) (answer string) {
	c.t.Helper()
	_, answer = c.post(token, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	return answer
}

// lists returns the names of the listed tools, and the answer to the modern client. A modern
// client and a legacy session must list the same tools.
func (c *credentialsTest) lists(token string) (names, answer string) {
	c.t.Helper()
	answer = c.list(token)
	session, _ := c.legacy(token, `{}`)
	_, legacy := c.post(token, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", session)
	if a, b := namesIn(answer), namesIn(legacy); a != b {
		c.t.Errorf("a modern client gets %q, a legacy one %q", a, b)
	}
	return namesIn(answer), answer
}

func namesIn(list string) string {
	var names []string
	for _, m := range toolName.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, " ")
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Each principal lists and calls only the items that the upstreams list to it.
func TestListsOfPrincipals(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	fresh, old := newShop(t, idp, true), newShop(t, idp, false)
	exchange := `{kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}`
	for name, session := range map[string]string{"of their principals": "", "of each client": ", session: per-client"} {
		t.Run("sessions "+name, func(t *testing.T) {
			c := startCredentials(t, idp, fmt.Sprintf("  fresh: {url: %q%s, auth: %s}\n  old: {url: %q%s, auth: %s}\n", fresh.url, session, exchange, old.url, session, exchange), nil)
			ann, bob := c.tokenOf("ann"), c.tokenOf("bob")
			for range 2 { // the second list is cached
				list, answer := c.lists(ann)
				want(t, list, "fresh__of_ann old__of_ann")
				wantText(t, answer, `"cacheScope":"private"`)
				list, _ = c.lists(bob)
				want(t, list, "fresh__of_bob old__of_bob")
			}
			carl := c.tokenOf("carl") // carl calls a tool before his first list
			for _, name := range []string{"fresh", "old"} {
				wantText(t, c.modern(carl, name+"__of_carl", `{}`, ""), `"text":"of_carl for carl"`)
				_, legacy := c.legacy(ann, `{}`)
				wantText(t, legacy(name+"__of_ann"), `"text":"of_ann for ann"`)
				wantText(t, c.modern(ann, name+"__of_ann", `{}`, ""), `"text":"of_ann for ann"`)
				for _, other := range []string{"__of_bob", "__of_gw"} {
					wantText(t, legacy(name+other), `"message":"unknown tool: \"`+name+other+`\"`)
					wantText(t, c.modern(ann, name+other, `{}`, ""), `"message":"unknown tool: \"`+name+other+`\"`)
				}
			}
		})
	}
}

// An upstream learns of a principal only if policy shows the principal one of its items, even
// an item that the gateway's own list does not have. It learns of the principal as soon as
// policy shows an item.
func TestHiddenUpstreamsGatherNothing(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	shown, hidden := newShop(t, idp, false), newShop(t, idp, false)
	entry := "  %s: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n"
	c := startCredentials(t, idp, fmt.Sprintf(entry+entry, "shown", shown.url, "hidden", hidden.url), func(cfg *config.Config) {
		cfg.Policy.Default = config.Deny
		cfg.Policy.Rules = []config.Rule{
			{Name: "shown", Effect: config.Allow, What: config.What{Tools: []string{"shown__*"}}},
			{Name: "staff", Effect: config.Allow, Who: config.Who{Groups: []string{"staff"}}, What: config.What{Tools: []string{"hidden__of_ann"}}},
		}
	})
	known := func() bool {
		hidden.mu.Lock()
		defer hidden.mu.Unlock()
		return hidden.users["ann"] != nil
	}
	list, _ := c.lists(c.tokenOf("ann"))
	want(t, list, "shown__of_ann")
	if known() {
		t.Error("the hidden upstream learned of ann")
	}
	list, _ = c.lists(idp.Token("gw", map[string]any{"sub": "ann", "groups": []string{"staff"}}))
	want(t, list, "shown__of_ann hidden__of_ann")
	list, _ = c.lists(c.tokenOf("ann"))
	want(t, list, "shown__of_ann")
}

// A later request of a principal with fewer groups restricts the open sessions.
func TestFewerGroupsInOpenSessions(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	shop := newShop(t, idp, false)
	c := startCredentials(t, idp, fmt.Sprintf("  shop: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n", shop.url), func(cfg *config.Config) {
		cfg.Policy.Default = config.Deny
		cfg.Policy.Rules = []config.Rule{{Name: "staff", Effect: config.Allow, Who: config.Who{Groups: []string{"staff"}}}}
	})
	staff := func(subject string) string {
		return idp.Token("gw", map[string]any{"sub": subject, "groups": []string{"staff"}})
	}
	messages := make(map[string]<-chan string)
	for _, subject := range []string{"ann", "bob"} {
		token := staff(subject)
		session, _ := c.legacy(token, `{}`)
		messages[subject] = c.listen(token, session)
		c.lists(token)
	}
	added := 0
	hears := func(subject string) {
		t.Helper()
		polltest.Until(t, subject+" is notified", func() bool {
			added++
			give(shop.of("ann"), fmt.Sprint("new", added))
			give(shop.of("bob"), fmt.Sprint("new", added))
			select {
			case <-messages[subject]:
				return true
			default:
				return false
			}
		})
	}
	hears("ann")
	if list, _ := c.lists(c.tokenOf("ann")); namesIn(list) != "" {
		t.Fatalf("without the group ann is shown %s", list)
	}
	for range len(messages["ann"]) {
		<-messages["ann"]
	}
	for range 3 {
		hears("bob")
	}
	if n := len(messages["ann"]); n > 0 {
		t.Errorf("ann gets %d notifications of items that she may not see", n)
	}
}

// Changes of a principal's own lists are announced to its clients only.
func TestOwnListChanges(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	shop := newShop(t, idp, false)
	c := startCredentials(t, idp, fmt.Sprintf("  shop: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n", shop.url), nil)
	ann, bob := c.tokenOf("ann"), c.tokenOf("bob")
	messages := make(map[string]<-chan string)
	for _, token := range []string{ann, bob} {
		session, _ := c.legacy(token, `{}`)
		messages[token] = c.listen(token, session)
		c.lists(token)
	}
	// The gateway misses changes until its stream to the server is open, and nothing signals that.
	hears := func(token string, change func(), want string) {
		t.Helper()
		polltest.Until(t, "the client is notified", func() bool {
			change()
			select {
			case got := <-messages[token]:
				wantText(t, got, want)
				return true
			default:
				return false
			}
		})
	}
	hears(ann, func() { give(shop.of("ann"), "given") }, `{"method":"notifications/tools/list_changed"`)
	polltest.Until(t, "the list has the tool; its change may be announced earlier", func() bool {
		return namesIn(c.list(ann)) == "shop__given shop__of_ann"
	})
	list, _ := c.lists(bob)
	want(t, list, "shop__of_bob")

	// The first notification to bob is about his own tools. He received none about ann's tools.
	hears(bob, func() { prompt(shop.of("bob"), "more") }, `{"method":"notifications/prompts/list_changed"`)
}

// A principal without a grant gets the lists of the gateway itself, if there are any, and a
// list change after its grant. The first call of an upstream without a known list leads to
// the request for the grant.
func TestListsBeforeTheGrant(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	open, closed := newShop(t, as, false), newShop(t, as, true)
	as.SetUser("service")
	c := startCredentials(t, idp, fmt.Sprintf("  open: {url: %q, auth: {kind: user}}\n  closed: {url: %q, auth: {kind: user}}\n", open.url, closed.url), logIn(t, "open"))
	for upstream, want := range map[string]string{"open": "0", "closed": "1"} {
		if got := gauge(t, c.g, `mcp_gateway_upstream_grant_missing{upstream="`+upstream+`"}`); got != want {
			t.Errorf("grant missing for %s: %s, want %s", upstream, got, want)
		}
	}
	ann := c.tokenOf("ann")
	list, answer := c.lists(ann)
	want(t, list, "open__of_service")
	wantText(t, answer, `"mcpgateway/unavailable":[{"upstream":"closed"`)
	wantText(t, answer, `"cacheScope":"private"`)

	session, _ := c.legacy(ann, `{}`)
	messages := c.listen(ann, session)
	for _, tool := range []string{"open__of_service", "closed__of_ann"} {
		name, _, _ := strings.Cut(tool, "__")
		asked := c.modern(ann, tool, opensURLs, "")
		link, state, key := urlAsked(t, asked)
		idp.SetUser("ann")
		as.SetUser("ann")
		wantText(t, browse(t, link), "Access to "+name+" is granted")
		if name == "closed" {
			again := fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept"}}`, state, key)
			wantText(t, c.modern(ann, tool, opensURLs, again), `"text":"of_ann for ann"`)
		}
	}
	wantText(t, <-messages, `{"method":"notifications/tools/list_changed"`)
	list, answer = c.lists(ann)
	want(t, list, "open__of_ann closed__of_ann")
	if strings.Contains(answer, "unavailable") {
		t.Error(answer)
	}
	list, _ = c.lists(c.tokenOf("bob"))
	want(t, list, "open__of_service")

	status, err := c.g.Status()
	if err != nil {
		t.Fatal(err)
	}
	if u := status.Upstreams[1]; u.Name != "closed" || u.State != "down" || !u.GrantMissing {
		t.Errorf("status %+v", u)
	}
	for _, text := range append(c.g.down(reasonForAll), status.Upstreams[1].Reason) {
		if !strings.Contains(text, "the gateway has none of its own yet") || !strings.HasSuffix(text, "; 1 session of a user with a grant is connected") {
			t.Errorf("closed is down: %s", text)
		}
	}
}

// The list of a principal that an upstream refuses lacks that upstream and says so. Other
// principals get their lists.
func TestListsOfARefusedPrincipal(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	shop := newShop(t, idp, false, "bob")
	c := startCredentials(t, idp, fmt.Sprintf("  shop: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n", shop.url), nil)
	_, answer := c.lists(c.tokenOf("bob"))
	wantText(t, answer, `"code":-32603,"message":"the upstream shop is unavailable`)
	list, _ := c.lists(c.tokenOf("ann"))
	want(t, list, "shop__of_ann")
}

// The lists of an idle principal are dropped. When they are gathered again, its clients are
// notified that they may have changed.
func TestListsOfAnIdlePrincipal(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	shop := newShop(t, idp, false)
	c := startCredentials(t, idp, fmt.Sprintf("  shop: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n", shop.url),
		func(cfg *config.Config) { cfg.Limits.SessionIdle = 2 * time.Second })
	ann := c.tokenOf("ann")
	session, _ := c.legacy(ann, `{}`)
	messages := c.listen(ann, session)
	list, _ := c.lists(ann)
	want(t, list, "shop__of_ann")
	who := c.g.front.Snapshot().Sessions[0].Principal
	polltest.Until(t, "the table is dropped", func() bool { return c.g.router.Routes().PrincipalTables.Table(who) == nil })
	give(shop.of("ann"), "given")
	list, _ = c.lists(ann)
	want(t, list, "shop__given shop__of_ann")
	wantText(t, <-messages, `{"method":"notifications/tools/list_changed"`)
}

// A reload applies a new policy and a new connection to the lists of principals, too.
func TestOwnListsOverReloads(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	before, after := newShop(t, idp, false), newShop(t, idp, true)
	give(after.of("ann"), "more")
	entry := `  shop: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}` + "\n"
	c := startCredentials(t, idp, fmt.Sprintf(entry, before.url), nil)
	ann := c.tokenOf("ann")
	list, _ := c.lists(ann)
	want(t, list, "shop__of_ann")
	reload := func(change func(*config.Config)) {
		t.Helper()
		next := *c.cfg
		next.Upstreams = slices.Clone(next.Upstreams)
		change(&next)
		if _, err := c.g.Reload(t.Context(), &next); err != nil {
			t.Fatal(err)
		}
	}
	reload(func(cfg *config.Config) { cfg.Policy.Default = config.Deny })
	bob := c.tokenOf("bob")
	for _, token := range []string{ann, bob} {
		list, _ = c.lists(token)
		want(t, list, "")
	}
	reload(func(cfg *config.Config) { cfg.Policy.Default = config.Allow })
	list, _ = c.lists(bob)
	want(t, list, "shop__of_bob")
	reload(func(cfg *config.Config) { cfg.Policy.Default = config.Deny })
	reload(func(cfg *config.Config) { cfg.Upstreams[0].URL = after.url })
	list, _ = c.lists(ann)
	want(t, list, "shop__more shop__of_ann")
	reload(func(cfg *config.Config) { cfg.Upstreams = nil })
	list, _ = c.lists(ann)
	want(t, list, "")
}

// A name stays reserved for an upstream without a prefix until its list for the principal is
// known.
func TestClashWithOwnLists(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	one, two, listed := newShop(t, idp, false), newScripted(t, "two"), make(chan struct{})
	one.of("ann").AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				select {
				case <-listed:
				case <-ctx.Done():
				}
			}
			return next(ctx, method, req)
		}
	})
	two.tool = "of_ann"
	c := startCredentials(t, idp, fmt.Sprintf("  one: {url: %q, prefix: \"\", auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n  two: %s\n", one.url, two.entry(`, prefix: ""`)),
		func(cfg *config.Config) { cfg.StartupWait = 100 * time.Millisecond })
	polltest.Until(t, "both to be listed", func() bool {
		_, list := c.post(c.tokenOf("bob"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		return strings.Contains(list, `"name":"of_bob"`) && strings.Contains(list, `"name":"of_ann"`)
	})
	ann := c.tokenOf("ann")
	list := func() string {
		_, list := c.post(ann, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		return list
	}
	wantText(t, list(), `"name":"two__of_ann"`)
	close(listed)
	polltest.Until(t, "ann to be listed hers", func() bool { return strings.Contains(list(), `"name":"of_ann"`) })
	wantText(t, list(), `"name":"two__of_ann"`)
}

// A call whose tool was unknown when the call began fails after the grant: a tool that the
// configuration hides or renames cannot be called by its native name.
func TestGrantWhileTheUserIsAsked(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	closed := newShop(t, as, false)
	c := startCredentials(t, idp, fmt.Sprintf("  closed: {url: %q, auth: {kind: user}, tools: {override: {of_ann: {hidden: true}}}}\n", closed.url), func(cfg *config.Config) {
		cfg.Policy.Rules = []config.Rule{{Name: "ask", Effect: config.Confirm, What: config.What{Tools: []string{"closed__of_ann"}}}}
	})
	ann := c.tokenOf("ann")
	answer := confirmLegacyAs(t, c.g, "Bearer "+ann, "closed__of_ann")
	link, _, _ := urlAsked(t, c.modern(ann, "closed__other", opensURLs, ""))
	idp.SetUser("ann")
	as.SetUser("ann")
	wantText(t, browse(t, link), "Access to closed is granted")
	wantText(t, answer(), `"retryable":true`)
	wantText(t, c.modern(ann, "closed__of_ann", opensURLs, ""), `"message":"unknown tool: `)
}
