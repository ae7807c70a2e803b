package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

var loginURL = regexp.MustCompile(`(?m)^  (http://\S+)$`)

// TestLoginWithRealProvider puts a gateway whose user has logged in before a server, which is another gateway and requires tokens of a real OpenID
// provider. The gateway finds the provider by the server's metadata, registers there, and gets a token for that server.
func TestLoginWithRealProvider(t *testing.T) {
	issuer, listen, everything := rig.OpenID(t), netns.Addr(), rig.EverythingCommand(t)
	inner := rig.StartOne(t, "gateway login uses a configuration without the store", rig.Config{
		"listen":     listen,
		"public_url": "http://" + listen,
		"auth":       rig.Config{"mode": "jwt", "jwt": []rig.Config{{"issuer": issuer, "required_scopes": []string{"mcp"}}}},
		"policy":     rig.Config{"default": "allow"},
		"upstreams":  rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	outer := rig.Config{
		"state_dir": t.TempDir(),
		"upstreams": rig.Upstreams{"a": {"url": inner.URL, "auth": rig.Config{"kind": "user"}}},
	}
	logIn(t, outer, "a", "ann", issuer)

	g := rig.StartOne(t, "gateway login uses a configuration without the store", outer)
	for _, c := range []client.Client{client.GoSDK(client.Legacy), client.V2(client.Modern)} {
		t.Run(c.Name(), func(t *testing.T) {
			got := c.Run(t, client.Target{URL: g.URL}, []client.Step{
				{Method: "tools/call", Params: map[string]any{"name": "a__e__echo", "arguments": map[string]any{"message": "hello"}}},
			})
			if text := string(client.Decode[json.RawMessage](t, got.Steps[0])); !strings.Contains(text, "hello") {
				t.Errorf("got %s", text)
			}
		})
	}
}

// logIn authorizes an upstream for this machine's user, with the real command and a browser.
func logIn(t *testing.T, config rig.Config, upstream, user, issuer string) {
	t.Helper()
	p := process.Start(t, process.Options{Name: "gateway login", Args: rig.LoginCommand(t, config, upstream)})
	p.WaitReady(t, func() error {
		if !loginURL.MatchString(p.Output()) {
			return errors.New("there is no URL to open yet")
		}
		return nil
	})
	resp, err := browserOf(t, user, issuer).Get(loginURL.FindStringSubmatch(p.Output())[1])
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(page), "Access to "+upstream+" is granted") {
		t.Fatalf("the browser stops at %s %s, %v", resp.Status, page, err)
	}
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		t.Fatal("gateway login does not end")
	}
	if !strings.Contains(p.Output(), "Access to "+upstream+" is granted.") {
		t.Fatalf("gateway login prints %s", p.Output())
	}
}
