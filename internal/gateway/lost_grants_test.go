package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/polltest"
)

// reasons returns the reasons of the calls of a principal that needed a grant, the latest one last.
func (c *credentialsTest) reasons(principal string) (all []string) {
	for _, e := range c.logs.FilterMessage("call").FilterField(zap.String("principal", principal)).FilterField(zap.String("outcome", "url_required")).All() {
		all = append(all, fmt.Sprint(e.ContextMap()["reason"]))
	}
	return all
}

// The log says whether a grant is missing or was refused, with the error code, and whether the client can open pages.
func TestReasonOfMissingGrant(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	server := newVault(t, as, true, "use")
	as.SetUser("service")
	c := startCredentials(t, idp, fmt.Sprintf("  v: {url: %q, auth: {kind: user}}\n", server.url), logIn(t, "v"))
	ann := c.tokenOf("ann")
	latest := func(want string) {
		t.Helper()
		all := c.reasons("ann")
		if len(all) == 0 || all[len(all)-1] != want {
			t.Errorf("the reasons are %q\nwant at last %q", all, want)
		}
	}

	const cannot = "the client cannot open pages (it did not declare elicitation.url): "
	wantText(t, c.modern(ann, "v__who", `{"elicitation":{}}`, ""), `"message":"upstream v needs its user to open a page, and the client cannot: it did not declare elicitation.url","data":{"requiredCapabilities":{"elicitation":{"url":{}}}`)
	latest(cannot + "upstream v needs a grant of its user")
	link, _, _ := urlAsked(t, c.modern(ann, "v__who", opensURLs, ""))
	latest("upstream v needs a grant of its user: open the page, then call again")

	idp.SetUser("ann")
	as.SetUser("ann at v")
	as.SetLifetime(time.Second)
	wantText(t, browse(t, link), "Access to v is granted")
	as.RevokeRefreshTokens()
	const refused = "the authorization server refused the grant of this server's user (invalid_grant)"
	polltest.Until(t, "the grant is refused", func() bool {
		c.modern(ann, "v__who", opensURLs, "")
		all := c.reasons("ann")
		return all[len(all)-1] == "upstream v needs a grant of its user: "+refused
	})
	lines := c.logs.FilterMessage("a grant was removed").FilterField(zap.String("principal", "ann")).FilterField(zap.String("upstream", "v")).All()
	if len(lines) != 1 || lines[0].ContextMap()["reason"] != refused {
		t.Errorf("the removal is logged as %v", lines)
	}
	c.modern(ann, "v__who", `{}`, "")
	latest(cannot + "upstream v needs a grant of its user: " + refused)
	_, legacy := c.legacy(ann, `{}`)
	wantText(t, legacy("v__who"), refused+`: it needs a grant from you on a page in a browser`)
	latest(refused + ": it needs a grant from you on a page in a browser; use a client that can open one (URL elicitation)")
	page := newPerson(t, c.g)
	page.logIn(ann)
	if _, me := page.get("/me"); !strings.Contains(me, "the authorization server refused your grant (invalid_grant)") {
		t.Errorf("/me has no reason: %s", me)
	}
}

// grantedShop starts a gateway without a grant of its own, in front of a shop whose tools ann uses with her grant. Her token must be
// renewed after a moment.
func grantedShop(t *testing.T) (c *credentialsTest, as *gatewaytest.AuthServer, at, ann string) {
	t.Helper()
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as = gatewaytest.NewAuthServer(t, nil)
	server := newShop(t, as, true)
	c = startCredentials(t, idp, fmt.Sprintf("  shop: {url: %q, auth: {kind: user}}\n", server.url), nil)
	ann = c.tokenOf("ann")
	link, _, _ := urlAsked(t, c.modern(ann, "shop__of_ann", opensURLs, ""))
	idp.SetUser("ann")
	as.SetUser("ann")
	as.SetLifetime(2 * time.Second)
	wantText(t, browse(t, link), "Access to shop is granted")
	polltest.Until(t, "ann calls her tool", func() bool { // her token may expire meanwhile
		return strings.Contains(c.modern(ann, "shop__of_ann", opensURLs, ""), `"text":"of_ann for ann"`)
	})
	return c, as, server.url, ann
}

// status returns the state of the only upstream.
func (c *credentialsTest) status() inspect.UpstreamStatus {
	c.t.Helper()
	status, err := c.g.Status()
	if err != nil {
		c.t.Fatal(err)
	}
	return status.Upstreams[0]
}

// The session of a user whose grant was removed is not counted as one with a grant.
func TestSessionWithoutItsGrant(t *testing.T) {
	const connected = "; 1 session of a user with a grant is connected"
	for name, lose := range map[string]func(c *credentialsTest, as *gatewaytest.AuthServer, ann string){
		"refused": func(c *credentialsTest, as *gatewaytest.AuthServer, ann string) {
			as.RevokeRefreshTokens()
			polltest.Until(t, "the grant is refused", func() bool {
				c.modern(ann, "shop__of_ann", opensURLs, "")
				return c.logs.FilterMessage("a grant was removed").Len() > 0
			})
		},
		"revoked": func(c *credentialsTest, _ *gatewaytest.AuthServer, _ string) {
			all, err := c.g.grants.Grants(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("grants %v, %v", all, err)
			}
			if revoked, untold, err := c.g.credentialsOf("shop").Revoke(t.Context(), all[0]); !revoked || untold != nil || err != nil {
				t.Errorf("got %v, %v, %v", revoked, untold, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, as, _, ann := grantedShop(t)
			if reason := c.status().Reason; !strings.HasSuffix(reason, connected) {
				t.Errorf("with a grant the shop is down: %s", reason)
			}
			lose(c, as, ann)
			if reason := c.status().Reason; strings.Contains(reason, "session") || !strings.Contains(reason, "the gateway has none of its own yet") {
				t.Errorf("without a grant the shop is down: %s", reason)
			}
		})
	}
}

// If the authorization server has forgotten the gateway, an operator makes the gateway register anew.
func TestForgottenRegistration(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	server := newVault(t, as, true, "use")
	upstreams := fmt.Sprintf("  v: {url: %q, auth: {kind: user}}\n  own: {url: %q, auth: {kind: user, client_id: gw, issuer: %q}}\n", server.url, server.url, as.URL)
	c := startCredentials(t, idp, upstreams, nil)
	open := func(who string) string {
		t.Helper()
		link, _, _ := urlAsked(t, c.modern(c.tokenOf(who), "v__who", opensURLs, ""))
		idp.SetUser(who)
		return browse(t, link)
	}
	wantText(t, open("ann"), "Access to v is granted")
	as.RemoveClients()
	wantText(t, open("bob"), "a request that is not right") // it has no client of this name
	for name, want := range map[string]bool{"own": false, "nothing": false, "v": true} {
		if registers, err := ForgetClient(t.Context(), c.cfg, name); registers != want || err != nil {
			t.Errorf("%s: got %v, %v", name, registers, err)
		}
	}
	wantText(t, open("bob"), "Access to v is granted")
}

// Operators read which authorization server does not answer, and why. The client may send the call again, since the server never
// got it.
func TestAuthorizationServerAway(t *testing.T) {
	c, as, _, ann := grantedShop(t)
	as.SetDown(true)
	const reason = "the metadata of the authorization server is at none of its well-known URLs (HTTP 500)"
	var answer string
	polltest.Until(t, "the token cannot be renewed", func() bool {
		answer = c.modern(ann, "shop__of_ann", opensURLs, "")
		return strings.Contains(answer, reason)
	})
	wantText(t, answer, `"retryable":true`)
	if strings.Contains(answer, as.URL) {
		t.Errorf("the client reads where the authorization server is: %s", answer)
	}
	want := fmt.Sprintf("%s: the issuer is %q", reason, as.URL)
	if failed := c.status().LastFailed; failed == nil || !strings.HasSuffix(failed.Reason, want) {
		t.Errorf("the last failed call: %+v, want %s", failed, want)
	}
	lines := c.logs.FilterMessage("call").FilterField(zap.String("outcome", "unavailable")).All()
	if len(lines) == 0 || !strings.HasSuffix(fmt.Sprint(lines[len(lines)-1].ContextMap()["reason"]), want) {
		t.Errorf("the call is logged as %v, want %s", lines, want)
	}
}
