package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/gatewaytest"
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
