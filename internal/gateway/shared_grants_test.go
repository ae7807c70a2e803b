package gateway

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

func waitStarted(t *testing.T, c *credentialsTest) {
	t.Helper()
	if err := (&InProcess{c.g.inspector, c.g}).WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A grant, one with more scopes, and the removal of a grant at one replica are in force at the other one at once, although both keep
// access tokens in memory.
func TestGrantsOfReplicas(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	v := newVault(t, as, true, "use")
	as.SetUser("service")
	kept := store.Sealed(new(storetest.Memory), [][]byte{[]byte(strings.Repeat("k", 32))}, func(kind string, err error) { t.Errorf("%s: %v", kind, err) })
	upstreams := fmt.Sprintf("  up: {url: %q, auth: {kind: user}}\n", v.url)
	var dir string
	a := startSharing(t, idp, upstreams, kept, func(cfg *config.Config) {
		logIn(t, "up")(cfg) // into its folder, from where the grant moves to the store
		dir = cfg.StateDir
	})
	ann := a.tokenOf("ann")
	idp.SetUser("ann")
	as.SetUser("ann")
	link, _, _ := urlAsked(t, a.modern(ann, "up__who", opensURLs, ""))
	waitStarted(t, a)
	if all, err := Grants(t.Context(), &config.Config{StateDir: dir}); err != nil || len(all) != 0 {
		t.Errorf("the folder has %v, %v", all, err)
	}
	b := startSharing(t, idp, upstreams, kept, nil)
	waitStarted(t, b)
	urlAsked(t, b.modern(ann, "up__who", opensURLs, ""))
	wantText(t, browse(t, link), "Access to up is granted")
	both := func(tool string) {
		t.Helper()
		for _, c := range []*credentialsTest{a, b} {
			wantText(t, c.modern(ann, tool, opensURLs, ""), `"text":"ann as "`)
		}
	}
	both("up__who")
	link, _, _ = urlAsked(t, b.modern(ann, "up__write", opensURLs, ""))
	wantText(t, browse(t, link), "Access to up is granted")
	both("up__write")

	who := &call.Principal{Subject: "ann", Issuer: idp.URL, AuthMethod: "jwt"}
	if _, err := b.g.credentialsOf("up").Headers(t.Context(), who); err != nil { // and keeps the token
		t.Fatal(err)
	}
	all, err := a.g.grants.Grants(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("got %v, %v", all, err)
	}
	for _, g := range all {
		if g.Local {
			continue
		}
		if revoked, untold, err := a.g.credentialsOf("up").Revoke(t.Context(), g); !revoked || untold != nil || err != nil {
			t.Errorf("got %v, %v, %v", revoked, untold, err)
		}
	}
	for _, c := range []*credentialsTest{a, b} {
		if !c.g.credentialsOf("up").NeedsGrant(who) { // one of the replicas passes its calls to the other
			t.Error("a replica uses a grant that was removed at the other")
		}
		urlAsked(t, c.modern(ann, "up__who", opensURLs, ""))
	}
}

// While the store is away, a call that needs a grant says so, and that it can be repeated. Operators also read why.
func TestGrantsWhileTheStoreIsAway(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as := gatewaytest.NewAuthServer(t, nil)
	v := newVault(t, as, true, "use")
	as.SetUser("service")
	kept := &deadStore{Store: store.Sealed(new(storetest.Memory), [][]byte{[]byte(strings.Repeat("k", 32))}, func(kind string, err error) { t.Errorf("%s: %v", kind, err) })}
	c := startSharing(t, idp, fmt.Sprintf("  up: {url: %q, auth: {kind: user}}\n", v.url), kept, logIn(t, "up"))
	ann := c.tokenOf("ann")
	urlAsked(t, c.modern(ann, "up__who", opensURLs, ""))
	kept.dead.Store(true)
	answer := c.modern(ann, "up__who", opensURLs, "")
	wantText(t, answer, "the store that the gateway shares with its replicas does not answer")
	wantText(t, answer, `"retryable":true`)
	status, err := c.g.Status()
	if err != nil {
		t.Fatal(err)
	}
	reason := v.url + ": the store that the gateway shares with its replicas does not answer, and it has the grants; try again later: " + errDead.Error()
	if failed := status.Upstreams[0].LastFailed; failed == nil || failed.Reason != reason {
		t.Errorf("the last failed call: %+v, want %s", failed, reason)
	}
	if c.logs.FilterMessage("no connection").FilterField(zap.String("why", reason)).Len() == 0 {
		t.Errorf("the log does not say %q", reason)
	}
}
