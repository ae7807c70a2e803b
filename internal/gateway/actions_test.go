package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/webui"
	"mcpgateway/internal/wire"
)

// A definition that is accepted in the console is published without waiting for anything else, and one that
// is refused stays hidden.
func TestDecidedDefinitions(t *testing.T) {
	a := newScripted(t, "kept")
	g, _ := start(t, "upstreams: {a: "+a.entry(", pin: true")+"}", false)
	shows := func(shown bool) {
		t.Helper()
		polltest.Until(t, fmt.Sprintf("the tool is shown: %v", shown), func() bool { return strings.Contains(listOf(t, g), "a__kept") == shown })
	}
	shows(true)
	// Another process accepts another definition, such as one of before.
	if _, err := pinStore(t, g.cfg.StateDir).Accept("a", []wire.Raw{wire.Raw(`{"name":"kept","description":"good","inputSchema":{"type":"object"}}`)}, nil, false); err != nil {
		t.Fatal(err)
	}
	g.requestRebuild()
	shows(false)
	held, pinned, err := g.heldDefinitions()
	if err != nil || !pinned || len(held) != 1 || len(held[0].Tools) != 1 || !strings.Contains(string(held[0].Tools[0].Was), "good") {
		t.Fatalf("%+v, %v, %v", held, pinned, err)
	}
	digest := held[0].Tools[0].Digest
	needsPerson := func() bool {
		s, err := g.Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range g.inspector.Attention(s) {
			if of.Kind == "held" {
				return true
			}
		}
		return false
	}
	if !needsPerson() {
		t.Error("nobody is asked to look")
	}
	isHeld := func(all int, waiting string) {
		t.Helper()
		if got := gauge(t, g, `mcp_gateway_upstream_tools_held{upstream="a"}`); got != waiting {
			t.Errorf("%q tools are held, want %q", got, waiting)
		}
		if u := g.Upstreams()[0]; fmt.Sprint(u.HeldTools) != waiting || u.Items[call.Tool] != 1-all {
			t.Errorf("%d tools are held of %d", u.HeldTools, u.Items[call.Tool])
		}
	}
	isHeld(1, "1")
	decide := func(upstream string, accept bool) error {
		return g.decideDefinition(t.Context(), upstream, "kept", digest, accept)
	}
	if err := decide("b", true); !errors.Is(err, pins.ErrNotHeld) {
		t.Errorf("for an upstream that does not exist: %v", err)
	}
	if err := decide("a", false); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "nobody is asked to look any more", func() bool { return !needsPerson() })
	isHeld(1, "0")
	shows(false)
	if err := decide("a", true); err != nil {
		t.Fatal(err)
	}
	shows(true)
	isHeld(0, "0")
	if held, _, err := g.heldDefinitions(); err != nil || len(held) != 0 {
		t.Errorf("%+v, %v", held, err)
	}
}

// A grant that is revoked in the console is not used by the next call, and the log says whose it was. Other grants stay.
func TestRevokedGrants(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	v := newVault(t, as, true, "use")
	as.SetUser("service")
	login := logIn(t, "up")
	c := startCredentials(t, idp, fmt.Sprintf("  up: {url: %q, auth: {kind: user}}\n", v.url), func(cfg *config.Config) {
		login(cfg)
		cfg.Admin.Actions = true
	})
	ann := c.tokenOf("ann")
	grant := func() {
		t.Helper()
		link, _, _ := urlAsked(t, c.modern(ann, "up__who", opensURLs, ""))
		idp.SetUser("ann")
		as.SetUser("ann at up")
		wantText(t, browse(t, link), "Access to up is granted")
		wantText(t, c.modern(ann, "up__who", opensURLs, ""), `"text":"ann at up as "`)
	}
	grant()

	// A call that somebody makes in the name of ann does not use it.
	who := &call.Principal{Subject: "ann", Issuer: idp.URL, AuthMethod: "jwt"}
	for _, by := range []string{"", "admin"} {
		made := &call.Call{
			ID: "try", Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"up__who"}`), Principal: who, By: by, WithoutGrants: by != "",
			Client: &call.Client{Key: "console", Sessionless: true, Revision: wire.Rev20251125}, Back: struct{ call.BackChannel }{}, Trace: &call.Trace{},
		}
		res, err := c.g.front.Call(t.Context(), made)
		if refused := err != nil && strings.Contains(err.Error(), "need the grant of ann, and only their own calls use it"); refused != (by != "") {
			t.Errorf("by %q: %s, %v", by, res.Raw, err)
		}
	}

	all, err := c.g.listedGrants(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	of := all[0]
	if of.Local {
		of = all[1]
	}
	if of.Subject != "ann" || of.Upstream != "up" || !of.Configured || of.Issuer == "" || of.Since.IsZero() || of.ID == all[0].ID && all[0].Local {
		t.Errorf("%+v", of)
	}
	operator := newPerson(t, c.g)
	operator.base = "http://" + c.g.AdminAddr()
	revoke := func(request string) (int, string) {
		t.Helper()
		_, page := operator.get("/ui/grants")
		operator.request = request
		return operator.post("/ui/grants", url.Values{"grant": {of.ID}, "csrf": {csrfIn.FindStringSubmatch(page)[1]}})
	}
	// logged checks that the revocation has its one line, and returns it.
	logged := func(request, line string) map[string]any {
		t.Helper()
		var lines []observer.LoggedEntry
		for _, l := range c.logs.FilterField(zap.String("request", request)).All() {
			if l.Message != "action of the console" {
				lines = append(lines, l)
			}
		}
		if len(lines) != 1 || lines[0].Message != line || lines[0].ContextMap()["principal"] != "ann" || lines[0].ContextMap()["upstream"] != "up" {
			t.Fatalf("the log has %v", lines)
		}
		return lines[0].ContextMap()
	}
	if status, page := revoke("first"); status != http.StatusOK {
		t.Fatalf("%d %s", status, page)
	}
	if fields := logged("first", "a grant was revoked in the console"); fields["revoked"] != true {
		t.Errorf("the log has %v", fields)
	}
	if n := c.logs.FilterMessage("action of the console").FilterField(zap.String("request", "first")).Len(); n != 1 {
		t.Errorf("%d lines about the action", n)
	}
	urlAsked(t, c.modern(ann, "up__who", opensURLs, "")) // a new grant is asked for
	if left, err := c.g.listedGrants(t.Context()); err != nil || len(left) != 1 || !left[0].Local {
		t.Errorf("%+v, %v", left, err)
	}
	if status, page := revoke("second"); status != http.StatusConflict || !strings.Contains(page, webui.ErrNoGrant.Error()) {
		t.Errorf("a second time: %d %s", status, page)
	}

	grant()
	as.SetDown(true)
	if status, page := revoke("third"); status != http.StatusOK {
		t.Fatalf("%d %s", status, page)
	}
	if fields := logged("third", "a grant was removed, and its authorization server does not know"); fields["error"] == nil {
		t.Errorf("the log has %v", fields)
	}
}
