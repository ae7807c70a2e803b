package gateway

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/wire"
)

// profileClient are a legacy and a modern client in a profile, each with an open stream.
type profileClient struct {
	t       *testing.T
	at      string // the URL of the profile
	session string
	streams map[string]*notifications // by era
}

// notifications are those on one stream.
type notifications struct {
	arriving <-chan string // methods; closed at the end of the stream
	heard    []string
}

// connectTo connects clients to a profile, "" for the default one. They have their lists.
func connectTo(t *testing.T, g *Gateway, profile string) *profileClient {
	t.Helper()
	c := &profileClient{t: t, at: g.URL(), streams: make(map[string]*notifications)}
	if profile != "" {
		c.at += "/" + profile
	}
	hello := c.send(http.MethodPost, initialize)
	c.session = hello.Header.Get(wire.HeaderSession)
	c.inSession(legacyList) // waits for the upstreams
	for era, resp := range map[string]*http.Response{
		"legacy": c.send(http.MethodGet, "", wire.HeaderSession, c.session),
		"modern": c.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`,
			wire.HeaderVersion, "2026-07-28", wire.HeaderMethod, wire.MethodListen),
	} {
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, profile %q: %s", era, profile, resp.Status)
		}
		arriving := make(chan string, 64)
		go func() {
			defer close(arriving)
			for in := bufio.NewScanner(resp.Body); in.Scan(); {
				if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && data != "" {
					arriving <- wire.ValueOf(wire.Raw(data)).Get("method").Str()
				}
			}
		}()
		c.streams[era] = &notifications{arriving: arriving}
	}
	return c
}

func (c *profileClient) send(verb, body string, header ...string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), verb, c.at, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if verb == http.MethodPost {
		req.Header.Add("Accept", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// inSession sends a message of the legacy client, and returns the status.
func (c *profileClient) inSession(body string) int {
	c.t.Helper()
	resp := c.send(http.MethodPost, body, wire.HeaderSession, c.session)
	resp.Body.Close()
	return resp.StatusCode
}

// hears waits until both clients hear of changed tools.
func (c *profileClient) hears() {
	c.t.Helper()
	for era, s := range c.streams {
		for !slices.Contains(s.heard, wire.NoteToolsChanged) {
			select {
			case m, open := <-s.arriving:
				if !open {
					c.t.Fatalf("%s: the stream of the %s client has ended", c.at, era)
				}
				s.heard = append(s.heard, m)
			case <-time.After(testTimeout):
				c.t.Fatalf("%s: the %s client has heard %v only", c.at, era, s.heard)
			}
		}
		s.heard = nil
	}
}

// ends waits for the ends of both streams. They had no further notification.
func (c *profileClient) ends() {
	c.t.Helper()
	for era, s := range c.streams {
		for open, m := true, ""; open; {
			select {
			case m, open = <-s.arriving:
				if m == wire.NoteToolsChanged {
					c.t.Errorf("%s: the %s client heard of another profile's changes", c.at, era)
				}
			case <-time.After(testTimeout):
				c.t.Fatalf("%s: the stream of the %s client goes on", c.at, era)
			}
		}
	}
}

// heardNothing checks that no client heard of a change.
func (c *profileClient) heardNothing() {
	c.t.Helper()
	for era, s := range c.streams {
		for len(s.arriving) > 0 {
			if m := <-s.arriving; m == wire.NoteToolsChanged {
				c.t.Errorf("%s: the %s client heard of another profile's changes", c.at, era)
			}
		}
	}
}

// A reload notifies the clients whose profile it changes, and no others. The sessions and
// streams of a profile that it removes end.
func TestReloadOfProfiles(t *testing.T) {
	a, b, more := newScripted(t, "a"), newScripted(t, "b"), newScripted(t, "more")
	yaml := func(profiles, upstreams, rules string) string {
		return "profiles: {" + profiles + "}\npolicy: {default: allow, rules: [" + rules + "]}\n" +
			"upstreams: {a: " + a.entry(", tags: [x]") + ", b: " + b.entry(", tags: [y]") + upstreams + "}\n"
	}
	const one, two, none = "one: {tags: [x]}", ", two: {tags: [y]}", ""
	added := ", more: " + more.entry(", tags: [x]")
	g, _ := start(t, yaml(one+two, none, none), false)
	reload := func(yaml string) {
		t.Helper()
		if changes, err := reloaded(t, g, yaml); err != nil || len(changes.Restart) > 0 {
			t.Fatal(changes, err)
		}
	}
	clients := make(map[string]*profileClient)
	for _, profile := range []string{"", "one", "two"} {
		clients[profile] = connectTo(t, g, profile)
	}
	reload(yaml(one+two, added, none)) // another upstream
	clients[""].hears()
	clients["one"].hears()
	clients["two"].heardNothing()

	const denied = `, two: {tags: [y], tools: {deny: ["b__*"]}}`
	reload(yaml(one+denied, added, none)) // another definition
	clients["two"].hears()
	clients[""].heardNothing()
	clients["one"].heardNothing()

	reload(yaml(one, added, none)) // no profile two
	clients["two"].ends()
	if got := clients["two"].inSession(pingBody); got != http.StatusNotFound {
		t.Errorf("a session of the removed profile: %d", got)
	}
	reload(yaml(one+two, added, `{name: r, effect: deny, what: {tools: ["a__*"]}}`)) // it comes back
	for _, profile := range []string{"", "one"} {
		clients[profile].hears()
		if got := clients[profile].inSession(pingBody); got != http.StatusOK {
			t.Errorf("a session of profile %q: %d", profile, got)
		}
	}
	if got := clients["two"].inSession(pingBody); got != http.StatusNotFound {
		t.Errorf("a session of the profile before: %d", got)
	}
	back := connectTo(t, g, "two")
	reload(yaml(one+two, added, `{name: r, effect: deny}`))
	for _, c := range []*profileClient{clients[""], clients["one"], back} {
		c.hears()
	}
	for profile, want := range map[string]string{"default": "3", "one": "2", "two": "1"} {
		if got := gauge(t, g, `mcp_gateway_profile_items{kind="tool",profile="`+profile+`"}`); got != want {
			t.Errorf("profile %s has %s tools, want %s", profile, got, want)
		}
	}
	reload(yaml(one, none, none))
	if got := gauge(t, g, `mcp_gateway_profile_items{kind="tool",profile="two"}`); got != "" {
		t.Errorf("the removed profile has %s tools", got)
	}
}

const pingBody = `{"jsonrpc":"2.0","id":9,"method":"ping"}`

// An upstream that lists other items to each principal has a session for each of a principal's
// profiles. Each profile shows what it selects of these lists, and hears of their changes.
func TestListsOfPrincipalsInProfiles(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	sells, other := newShop(t, idp, false), newShop(t, idp, false)
	entry := "  %s: {url: %q, auth: {kind: token-exchange, client_id: gw, client_secret: pass, issuer: IDP}}\n"
	c := startCredentials(t, idp, fmt.Sprintf(entry+entry, "shop", sells.url, "other", other.url)+`
profiles:
  sales: {upstreams: [shop]}
  quiet: {upstreams: [shop], tools: {deny: ["shop__of_*"]}}
`, nil)
	ann := c.tokenOf("ann")
	for _, profile := range []struct {
		in    *credentialsTest
		tools string
	}{{c, "shop__of_ann other__of_ann"}, {c.in("sales"), "shop__of_ann"}, {c.in("quiet"), ""}} {
		list, _ := profile.in.lists(ann)
		want(t, list, profile.tools)
		for _, tool := range []string{"shop__of_ann", "other__of_ann"} {
			answer := profile.in.modern(ann, tool, `{}`, "")
			if strings.Contains(profile.tools, tool) {
				wantText(t, answer, `"text":"of_ann for ann"`)
			} else {
				wantText(t, answer, `"message":"unknown tool: \"`+tool+`\"`)
			}
		}
	}
	sessions := func(s *shop) (n int) {
		for range s.of("ann").Sessions() {
			n++
		}
		return n
	}
	if n, m := sessions(sells), sessions(other); n != 3 || m != 1 {
		t.Errorf("the upstreams have %d and %d sessions of ann, want one for each profile that has them", n, m)
	}
}
