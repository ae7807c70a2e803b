package console

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpgateway/internal/auth"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

var screenshots = flag.String("screenshots", "", "absolute path of the folder for screenshots; default: a temporary one")

const token = "token-of-the-console-test"

// startOn starts a gateway whose configuration has a key admin.
func startOn(t *testing.T, listen string, config rig.Config) *rig.Gateway {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return rig.StartGatewayOn(t, listen, netns.Addr(), file)
}

func screenshotFolder(t *testing.T) string {
	if *screenshots != "" {
		return *screenshots
	}
	return t.TempDir()
}

// A browser sees every page without an error, an overflow or a barrier, nothing of a hostile server happens in it, and other origins
// read nothing.
func TestConsoleInBrowser(t *testing.T) {
	folder := screenshotFolder(t)
	config := func(more rig.Config) rig.Config {
		c := rig.Config{
			"policy": rig.Config{"default": "allow", "rules": []rig.Config{{"name": "no-fails", "effect": "deny", "what": rig.Config{"tools": []string{"*__nothing"}}}}},
			"upstreams": rig.Upstreams{
				"everything": {"command": rig.EverythingCommand(t)[0], "args": rig.EverythingCommand(t)[1:]},
				"hostile":    {"command": rig.Node(t, "servers/hostile.mjs")[0], "args": rig.Node(t, "servers/hostile.mjs")[1:]},
				"questions":  {"command": rig.Node(t, "servers/hostile.mjs")[0], "args": rig.Node(t, "servers/hostile.mjs")[1:]},
				"broken":     {"command": "/bin/false"},
			},
		}
		maps.Copy(c, more)
		return c
	}
	open := startOn(t, netns.Addr(), config(rig.Config{"admin": rig.Config{"actions": true}, "state_dir": t.TempDir()}))
	closed := startOn(t, netns.Addr(), config(rig.Config{"admin": rig.Config{"token": token}, "state_dir": t.TempDir()}))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, errs, err := process.Run(ctx, t, "", process.Options{
		Args: rig.Node(t, "console/browser.mjs", open.Admin, open.URL, closed.Admin, token, folder),
	})
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// At the main address operators see the console, and all others only what is theirs.
func TestPublicConsoleInBrowser(t *testing.T) {
	operator, digestOfOperator := auth.NewKey()
	other, digestOfOther := auth.NewKey()
	listen := netns.Addr()
	startOn(t, listen, rig.Config{
		"state_dir": t.TempDir(), "admin": rig.Config{"ui": "public"},
		"auth": rig.Config{"mode": "api-key", "api_keys": []rig.Config{
			{"id": "operator", "sha256": digestOfOperator, "groups": []string{"ops"}}, {"id": "somebody", "sha256": digestOfOther, "groups": []string{"readers"}},
		}},
		"policy": rig.Config{"rules": []rig.Config{
			{"name": "operators", "effect": "allow", "who": rig.Config{"groups": []string{"ops"}}, "what": rig.Config{"admin": true}},
			{"name": "everybody", "effect": "allow", "limit": rig.Config{"rate": "5/m"}},
		}},
		"upstreams": rig.Upstreams{
			"hostile": {"command": rig.Node(t, "servers/hostile.mjs")[0], "args": rig.Node(t, "servers/hostile.mjs")[1:]},
			"tickets": {"url": "http://127.0.0.1:9/mcp", "auth": rig.Config{"kind": "user"}},
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, errs, err := process.Run(ctx, t, "", process.Options{
		Args: rig.Node(t, "console/public.mjs", "http://"+listen, operator, other, screenshotFolder(t)),
	})
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// A person of an organization logs in at its OpenID provider, and sees the console with the rights of the token.
func TestLoginAtIssuerInBrowser(t *testing.T) {
	listen := netns.Addr()
	base := "http://" + listen
	issuer := rig.OpenID(t, base+"/oauth/login")
	startOn(t, listen, rig.Config{
		"state_dir": t.TempDir(), "public_url": base, "admin": rig.Config{"ui": "public"},
		"auth": rig.Config{"mode": "jwt", "jwt": []rig.Config{{
			"issuer": issuer, "required_scopes": []string{"mcp"}, "login": rig.Config{"client_id": "gateway", "client_secret": "gateway-secret"},
		}}},
		"policy":    rig.Config{"rules": []rig.Config{{"name": "staff", "effect": "allow", "who": rig.Config{"groups": []string{"staff"}}, "what": rig.Config{"admin": true}}}},
		"upstreams": rig.Upstreams{"tickets": {"url": "http://127.0.0.1:9/mcp", "auth": rig.Config{"kind": "user"}}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, errs, err := process.Run(ctx, t, "", process.Options{Args: rig.Node(t, "console/login.mjs", base, issuer, screenshotFolder(t))})
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// At the main address operators try calls as themselves: addresses to open, audio, tools of the gateway's own, and two people at once.
func TestTryItAtMainAddressInBrowser(t *testing.T) {
	first, digestOfFirst := auth.NewKey()
	second, digestOfSecond := auth.NewKey()
	composite := filepath.Join(t.TempDir(), "twice.star")
	source := "name = \"twice\"\ndescription = \"Says a text twice.\"\n" +
		"input_schema = {\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}}, \"required\": [\"text\"]}\n" +
		"def run(text):\n    said = call(\"tryable__echoes\", text = text)\n    return said + \" \" + said\n"
	if err := os.WriteFile(composite, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	server := rig.Node(t, "servers/tryable.mjs")
	listen := netns.Addr()
	startOn(t, listen, rig.Config{
		"state_dir": t.TempDir(), "admin": rig.Config{"ui": "public", "actions": true},
		"auth": rig.Config{"mode": "api-key", "api_keys": []rig.Config{
			{"id": "first", "sha256": digestOfFirst, "groups": []string{"ops"}}, {"id": "second", "sha256": digestOfSecond, "groups": []string{"ops"}},
		}},
		"policy": rig.Config{"default": "allow", "rules": []rig.Config{
			{"name": "operators", "effect": "allow", "who": rig.Config{"groups": []string{"ops"}}, "what": rig.Config{"admin": true}},
		}},
		"profiles":  rig.Config{"agent": rig.Config{"catalog": "search", "tools_from": []string{composite}}},
		"upstreams": rig.Upstreams{"tryable": {"command": server[0], "args": server[1:]}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, errs, err := process.Run(ctx, t, "", process.Options{
		Args: rig.Node(t, "console/trypublic.mjs", "http://"+listen, first, second, screenshotFolder(t)),
	})
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}
