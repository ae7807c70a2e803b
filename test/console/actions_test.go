package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/pins"
	"mcpgateway/internal/wire"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

// A person accepts and refuses changed definitions of a hostile server and revokes a grant, with the keyboard. Pages of other origins
// and consoles that only show do nothing.
func TestActionsInBrowser(t *testing.T) {
	issuer, listen, everything := rig.OpenID(t), netns.Addr(), rig.EverythingCommand(t)
	inner := rig.StartGateway(t, rig.Config{
		"listen": listen, "public_url": "http://" + listen,
		"auth":      rig.Config{"mode": "jwt", "jwt": []rig.Config{{"issuer": issuer, "required_scopes": []string{"mcp"}}}},
		"policy":    rig.Config{"default": "allow"},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	hostile := rig.Node(t, "servers/hostile.mjs")
	config := func(actions bool) rig.Config {
		dir := t.TempDir()
		acceptBefore(t, dir)
		return rig.Config{
			"admin": rig.Config{"actions": actions}, "state_dir": dir, "policy": rig.Config{"default": "allow"},
			"upstreams": rig.Upstreams{
				"hostile": {"command": hostile[0], "args": hostile[1:], "pin": true},
				"up":      {"url": inner.URL, "auth": rig.Config{"kind": "user"}},
			},
		}
	}
	acting := config(true)
	logIn(t, acting, "up")
	acts, shows := startOn(t, netns.Addr(), acting), startOn(t, netns.Addr(), config(false))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, errs, err := process.Run(ctx, t, "", process.Options{Args: rig.Node(t, "console/actions.mjs", acts.Admin, shows.Admin, screenshotFolder(t))})
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// acceptBefore accepts what the hostile server listed before it became hostile.
func acceptBefore(t *testing.T, dir string) {
	t.Helper()
	accepted, err := pins.Open(dir, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	_, err = accepted.Accept("hostile", []wire.Raw{
		wire.Raw(`{"name":"plain","title":"Plain","description":"Reads a file of the folder.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":false}}`),
		wire.Raw(`{"name":"fails","description":"fails always","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`),
	}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
}

var loginURL = regexp.MustCompile(`(?m)^  (http://\S+)$`)

// logIn grants access to an upstream for the user of this machine.
func logIn(t *testing.T, config rig.Config, upstream string) {
	t.Helper()
	p := process.Start(t, process.Options{Name: "gateway login", Args: rig.LoginCommand(t, config, upstream)})
	p.WaitReady(t, func() error {
		if !loginURL.MatchString(p.Output()) {
			return errors.New("there is no URL to open yet")
		}
		return nil
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := browser.Get(loginURL.FindStringSubmatch(p.Output())[1])
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		t.Fatal("gateway login does not end")
	}
}
