package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

const (
	// shortLife is the life of access tokens, which the gateway renews after three quarters of it.
	shortLife = 4 * time.Second
	// refreshing is for how long calls go on while tokens are renewed.
	refreshing = 10 * time.Second
)

// grantsTest is replicas with an upstream that each user has to grant access to.
type grantsTest struct {
	t       *testing.T
	idp, as *gatewaytest.AuthServer
	*rig.Replicas
	config   rig.Config // for the verbs
	redis    *process.Process
	browsers *front
	// onRefresh is called once when the next refresh token arrives at the authorization server.
	onRefresh atomic.Pointer[func()]
}

func startGrants(t *testing.T) *grantsTest {
	t.Helper()
	g := &grantsTest{t: t, idp: gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"}), as: gatewaytest.NewAuthServer(t, nil), browsers: startFront(t)}
	token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") == gatewaytest.GrantRefresh {
			if f := g.onRefresh.Swap(nil); f != nil {
				(*f)()
			}
		}
		r.URL.Path = "/token"
		g.as.ServeHTTP(w, r)
	}))
	t.Cleanup(token.Close)
	g.as.SetMetadata("token_endpoint", token.URL+"/token")
	addr, redis := rig.StartRedis(t)
	g.redis = redis
	g.config = rig.Config{
		"store":      rig.Config{"kind": "redis", "url": "redis://" + addr, "key": strings.Repeat("ab", 32)},
		"bridge":     rig.Config{"keys": []string{strings.Repeat("cd", 32)}},
		"public_url": g.browsers.url,
		"policy":     rig.Config{"default": "allow"},
		"auth": rig.Config{"mode": "jwt", "jwt": []rig.Config{{
			"issuer": g.idp.URL, "audience": "gw", "login": rig.Config{"client_id": "gw", "client_secret": "pass"},
		}}},
		"upstreams": rig.Upstreams{"up": {"url": startVault(t, g.as), "auth": rig.Config{"kind": "user"}}},
	}
	g.Replicas = rig.StartReplicas(t, replicas, g.config)
	for _, gateway := range g.Gateways {
		g.browsers.to = append(g.browsers.to, gateway.URL)
	}
	return g
}

// front is the address at which browsers reach the replicas. Each request goes to the next one.
type front struct {
	url string
	to  []string
	n   atomic.Int64
}

func startFront(t *testing.T) *front {
	t.Helper()
	f := &front{}
	srv := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		target, err := url.Parse(f.to[int(f.n.Add(1))%len(f.to)])
		if err != nil {
			t.Error(err)
			return
		}
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
	}, Transport: &http.Transport{DisableKeepAlives: true}})
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

// startVault runs a server that requires tokens of an authorization server, and returns its URL. Its tool who returns the user of the token.
func startVault(t *testing.T, as *gatewaytest.AuthServer) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "vault", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "who", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("user " + r.Extra.TokenInfo.UserID), nil
	})
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	self := web.URL + "/mcp"
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, scopes, ok := as.TokenSubject(token, self)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: user, Scopes: scopes, Expiration: time.Now().Add(time.Minute)}, nil
	}
	metadata := web.URL + "/.well-known/oauth-protected-resource/mcp"
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata})(handler))
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: self, AuthorizationServers: []string{as.URL},
	}))
	return self
}

// browse opens a URL in a new browser and returns the last page.
func browse(url string) (string, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	b := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := b.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	return string(page), err
}

// verb runs a verb with the configuration of the replicas. If it prints the URL of a page, a browser opens it.
func (g *grantsTest) verb(args ...string) string {
	g.t.Helper()
	login := rig.LoginCommand(g.t, g.config, "up") // which ends with the name of its file
	command := append([]string{login[0]}, args...)
	p := process.Start(g.t, process.Options{Name: args[0], Args: append(command, "-c", login[len(login)-1])})
	opened := false
	polltest.UntilNil(g.t, args[0], func() error {
		if at := regexp.MustCompile(`http://\S+`).FindString(p.Output()); at != "" && !opened && args[0] == "login" {
			opened = true
			if page, err := browse(at); err != nil || !strings.Contains(page, "is granted") {
				g.t.Errorf("login: %v: %s", err, page)
			}
		}
		select {
		case <-p.Exited():
			return nil
		default:
			return fmt.Errorf("it runs: %s", p.Output())
		}
	})
	return p.Output()
}

// call calls the tool at a replica for a user, and returns the answer.
func (g *grantsTest) call(i int, user string) string {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__who","arguments":{},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}}}}}}`
	req, err := http.NewRequest(http.MethodPost, g.Gateways[i].URL, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + g.idp.Token("gw", map[string]any{"sub": user}), "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "up__who",
	} {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// serves checks that a replica answers a call of a user with the grant of an account.
func (g *grantsTest) serves(i int, user, account string) error {
	if answer := g.call(i, user); !strings.Contains(answer, `"text":"user `+account+`"`) {
		return fmt.Errorf("replica %d answers %s", i+1, answer)
	}
	return nil
}

// linkIn returns the URL of the page that a call asks its user to open, "" if it does not.
func linkIn(answer string) string {
	return regexp.MustCompile(`http://[^"]+/oauth/start\?id=\w+`).FindString(answer)
}

// grant gives the grant of a user, with a call at replica i.
func (g *grantsTest) grant(i int, user, account string) {
	g.t.Helper()
	g.idp.SetUser(user)
	g.as.SetUser(account)
	var link string
	polltest.UntilNil(g.t, "the link", func() error {
		answer := g.call(i, user)
		if link = linkIn(answer); link == "" {
			return fmt.Errorf("no link: %s", answer)
		}
		return nil
	})
	before := g.browsers.n.Load()
	if page, err := browse(link); err != nil || !strings.Contains(page, "Access to up is granted") {
		g.t.Fatalf("%v: %s", err, page)
	}
	if n := g.browsers.n.Load() - before; n != replicas {
		g.t.Errorf("the browser sent %d requests, want one to each replica", n)
	}
}

// usedOnce fails the test if the authorization server saw a refresh token twice, and returns how many it saw.
func (g *grantsTest) usedOnce() int {
	g.t.Helper()
	seen := map[string]bool{}
	for _, form := range g.as.TokenRequests(gatewaytest.GrantRefresh) {
		if token := form.Get("refresh_token"); seen[token] {
			g.t.Error("a refresh token was used twice")
		} else {
			seen[token] = true
		}
	}
	return len(seen)
}

// A grant that is given over several replicas is that of all, and so is its removal.
func TestGrants(t *testing.T) {
	g := startGrants(t)
	g.as.SetUser("service")
	if out := g.verb("login", "up", "--no-browser"); !strings.Contains(out, "Access to up is granted") {
		t.Fatal(out)
	}
	for i, user := range []string{"ann", "bob"} {
		g.grant(i, user, user+" there")
		for i := range replicas { // at once
			if err := g.serves(i, user, user+" there"); err != nil {
				t.Error(err)
			}
		}
	}
	if out := g.verb("grants"); !strings.Contains(out, "ann") || !strings.Contains(out, "bob") {
		t.Errorf("grants: %s", out)
	}
	if out := g.verb("logout", "up", "--principal", "ann"); !strings.Contains(out, "removed and revoked") {
		t.Errorf("logout: %s", out)
	}
	for i := range replicas {
		polltest.UntilNil(t, "the replica asks for a grant", func() error {
			if answer := g.call(i, "ann"); linkIn(answer) == "" {
				return fmt.Errorf("replica %d answers %s", i+1, answer)
			}
			return nil
		})
		if err := g.serves(i, "bob", "bob there"); err != nil {
			t.Error(err)
		}
	}
	// A replica that starts finds the grant.
	g.Gateways[0].Process.Kill()
	<-g.Gateways[0].Process.Exited()
	g.StartAgain(t, 0)
	polltest.UntilNil(t, "the replica that started", func() error { return g.serves(0, "bob", "bob there") })
}

// Replicas that need a new access token at the same moment use each refresh token once, also if the store goes away meanwhile.
func TestRotatingRefreshTokens(t *testing.T) {
	g := startGrants(t)
	g.as.SetLifetime(shortLife)
	g.as.SetUser("service")
	g.verb("login", "up", "--no-browser")
	g.grant(0, "ann", "ann there")
	var wg sync.WaitGroup
	var calls atomic.Int64
	end := time.Now().Add(refreshing)
	for i := range replicas {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := g.serves(i, "ann", "ann there"); err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	n := g.usedOnce()
	t.Logf("%d calls, %d refresh tokens were used", calls.Load(), n)
	if n < 2 {
		t.Error("too few refreshes, so the test proves nothing")
	}

	paused := make(chan struct{})
	pause := func() {
		signal(t, g.redis.PID(), syscall.SIGSTOP)
		close(paused)
	}
	g.onRefresh.Store(&pause)
	for i := range replicas {
		wg.Go(func() {
			for {
				g.call(i, "ann") // which may fail while the store is away
				select {
				case <-paused:
					return
				default:
				}
			}
		})
	}
	<-paused
	waitStore(t, g.Replicas, false)
	wg.Wait()
	signal(t, g.redis.PID(), syscall.SIGCONT)
	waitStore(t, g.Replicas, true)
	for i := range replicas {
		polltest.UntilNil(t, "calls after the outage", func() error { return g.serves(i, "ann", "ann there") })
	}
	if m := g.usedOnce(); m <= n {
		t.Error("no refresh while the store was away")
	}
}

// A replica is killed while it renews a token, after the authorization server has taken the refresh token and before its answer. The others cannot know the new
// one, so the user is asked to grant access again, as soon as the lock of the dead replica has ended.
func TestKilledWhileItRenews(t *testing.T) {
	g := startGrants(t)
	g.as.SetUser("service")
	g.verb("login", "up", "--no-browser")
	g.as.SetLifetime(shortLife)
	g.grant(0, "ann", "ann there")
	killed := make(chan struct{})
	kill := func() {
		g.Gateways[0].Process.Kill()
		<-g.Gateways[0].Process.Exited()
		close(killed)
	}
	g.onRefresh.Store(&kill)
	polltest.UntilNil(t, "the replica is killed", func() error {
		answer := g.call(0, "ann")
		select {
		case <-killed:
			return nil
		default:
			return fmt.Errorf("it answers %s", answer)
		}
	})
	_, addr, _ := strings.Cut(g.config["store"].(rig.Config)["url"].(string), "://")
	const end = `local n = 0; for _, k in ipairs(redis.call('keys', '*:grant-lock:*')) do local ttl = redis.call('pttl', k)
if ttl > 0 and ttl <= 45000 then redis.call('del', k); n = n + 1 end end; return n`
	if n := strings.TrimSpace(rig.RedisCLI(t, addr, "eval", end, "0")); n != "1" {
		t.Errorf("%s locks end within 45 s, want that of the dead replica", n)
	}
	for i := 1; i < replicas; i++ {
		if answer := g.call(i, "ann"); linkIn(answer) == "" {
			t.Errorf("replica %d does not ask for a grant: %s", i+1, answer)
		}
	}
	g.StartAgain(t, 0)
	g.grant(1, "ann", "ann there")
	for i := range replicas {
		polltest.UntilNil(t, "calls with the new grant", func() error { return g.serves(i, "ann", "ann there") })
	}
}
