package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// answerConfirmation accepts the confirmation of a call and returns the call's response.
type answerConfirmation func() string

// confirmLegacy calls a tool as a legacy client. The question arrives on the stream of the call.
func confirmLegacy(t *testing.T, g *Gateway, tool string) answerConfirmation {
	t.Helper()
	return confirmLegacyAs(t, g, "", tool)
}

// confirmLegacyAs is confirmLegacy with a token; "" means no token.
func confirmLegacyAs(t *testing.T, g *Gateway, token, tool string) answerConfirmation {
	t.Helper()
	session := ""
	send := func(body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session, "Authorization": token,
		} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	done := func(resp *http.Response) *http.Response {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp
	}
	session = done(send(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))).Header.Get("Mcp-Session-Id")
	done(send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	stream := send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`)
	t.Cleanup(func() { stream.Body.Close() })
	lines := bufio.NewScanner(stream.Body)
	next := func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				return data
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return ""
	}
	question := wire.ValueOf(wire.Raw(next()))
	if !question.Get("method").IsString(wire.MethodElicit) {
		t.Fatalf("no question: %s", question.Raw())
	}
	return func() string {
		done(send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`, question.Get("id").Raw())))
		return next()
	}
}

// confirmModern calls a tool as a modern client. The question is an input_required result.
func confirmModern(t *testing.T, g *Gateway, tool string) answerConfirmation {
	t.Helper()
	call := func(more string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+"/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}`+more+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
		} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	question := wire.ValueOf(wire.Raw(call(""))).Get("result")
	state := question.Get("requestState")
	if !question.Get("inputRequests", "mcpgateway-confirm").Exists() {
		t.Fatalf("no question: %s", question.Raw())
	}
	return func() string {
		return call(`,"requestState":` + string(state.Raw()) + `,"inputResponses":{"mcpgateway-confirm":{"action":"accept","content":{}}}`)
	}
}

// The configuration in force when a confirmation arrives decides about it: a tool that was
// denied or hidden meanwhile is not called. Other confirmations stay valid.
func TestReloadDuringAConfirmation(t *testing.T) {
	ask := func(effect string) string {
		return "\npolicy: {default: allow, rules: [{name: r, effect: " + effect + `, what: {tools: ["a__*"]}}]}`
	}
	for era, begin := range map[string]func(*testing.T, *Gateway, string) answerConfirmation{"legacy": confirmLegacy, "modern": confirmModern} {
		for name, tt := range map[string]struct {
			policy, more string
			pin          wire.Raw // the accepted tool of the upstream before the reload
			want         string
			called       bool
		}{
			"nothing changes":                {policy: ask("confirm"), want: "from kept", called: true},
			"another rule confirms it":       {policy: strings.Replace(ask("confirm"), "a__*", "*", 1), want: "from kept", called: true},
			"the tool is denied":             {policy: ask("deny"), want: `"code":-32602,"message":"unknown tool: \"a__kept\"`},
			"the tool needs no confirmation": {policy: ask("allow"), want: "from kept", called: true},
			"the tool is hidden":             {policy: ask("confirm"), more: ", tools: {deny: [kept]}", want: `"code":-32602,"message":"unknown tool: \"a__kept\"`},
			"the tool is pinned unchanged":   {policy: ask("confirm"), more: ", pin: true", pin: wire.Raw(`{"name":"kept","inputSchema":{"type":"object"}}`), want: "from kept", called: true},
			"another definition is pinned":   {policy: ask("confirm"), more: ", pin: true", pin: wire.Raw(`{"name":"kept","description":"good","inputSchema":{"type":"object"}}`), want: `"code":-32602,"message":"unknown tool: \"a__kept\"`},
		} {
			t.Run(era+", "+name, func(t *testing.T) {
				kept := newScripted(t, "kept")
				g, _ := start(t, "upstreams: {a: "+kept.entry("")+"}"+ask("confirm"), false)
				listOf(t, g)
				answer := begin(t, g, "a__kept")
				if tt.pin != nil {
					if _, err := pinStore(t, g.cfg.StateDir).Accept("a", []wire.Raw{tt.pin}, nil, false); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := reloaded(t, g, "upstreams: {a: "+kept.entry(tt.more)+"}"+tt.policy); err != nil {
					t.Fatal(err)
				}
				if got := answer(); !strings.Contains(got, tt.want) || (kept.calls.Load() > 0) != tt.called {
					t.Errorf("%d calls, answered with %s", kept.calls.Load(), got)
				}
			})
		}
	}
}

// Pins also apply to tools that are listed to one principal only. A confirmation is valid
// only while the tool is the accepted one.
func TestPinsAndConsentsOfPrincipalsOverReloads(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	shop := newShop(t, idp, false)
	c := startCredentials(t, idp, fmt.Sprintf("  shop: {url: %q, pin: true, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n", shop.url), func(cfg *config.Config) {
		cfg.Policy.Rules = []config.Rule{{Name: "ask", Effect: config.Confirm, What: config.What{Tools: []string{"shop__*"}}}}
	})
	<-c.g.started // the list of the gateway itself is accepted
	bob := c.tokenOf("bob")
	list, _ := c.lists(bob)
	want(t, list, "")
	accept := func(description string) {
		t.Helper()
		if _, err := pinStore(t, c.cfg.StateDir).Accept("shop", []wire.Raw{wire.Raw(`{"name":"of_bob",` + description + `"inputSchema":{"type":"object"}}`)}, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(names string) {
		t.Helper()
		polltest.Until(t, "bob is shown "+names, func() bool { return namesIn(c.list(bob)) == names })
	}
	accept("")
	shown("shop__of_bob")
	ask := func() (consent func() string) {
		t.Helper()
		question := wire.ValueOf(wire.Raw(c.modern(bob, "shop__of_bob", `{"elicitation":{}}`, ""))).Get("result")
		if !question.Get("inputRequests", "mcpgateway-confirm").Exists() {
			t.Fatalf("no question: %s", question.Raw())
		}
		return func() string {
			return c.modern(bob, "shop__of_bob", `{"elicitation":{}}`, `,"requestState":`+string(question.Get("requestState").Raw())+
				`,"inputResponses":{"mcpgateway-confirm":{"action":"accept","content":{}}}`)
		}
	}
	reload := func(change func(*config.Config)) {
		t.Helper()
		next := *c.cfg
		next.Upstreams = slices.Clone(next.Upstreams)
		change(&next)
		if _, err := c.g.Reload(t.Context(), &next); err != nil {
			t.Fatal(err)
		}
	}
	consent := ask()
	accept(`"description":"another",`)
	reload(func(*config.Config) {})
	wantText(t, consent(), `"message":"unknown tool: \"shop__of_bob\"`)
	accept("")
	shown("shop__of_bob")
	consent = ask()
	reload(func(cfg *config.Config) { cfg.Upstreams[0].Timeout = time.Hour }) // another connection
	wantText(t, consent(), `"text":"of_bob for bob"`)
	consent = ask()
	reload(func(cfg *config.Config) { cfg.Policy.Rules[0].Effect = config.Deny })
	wantText(t, consent(), `"message":"unknown tool: \"shop__of_bob\"`)
}

// pinStore opens the pinned tools of a state folder, as another process would.
func pinStore(t *testing.T, dir string) *pins.Store {
	t.Helper()
	s, err := pins.Open(dir, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
