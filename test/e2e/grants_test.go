package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/rig"
)

// tokenHead begins every token of the provider. It is long enough not to occur in sealed bytes by chance.
const tokenHead = "eyJhbGciOi"

// TestGrantsOfUsersWithRealProvider lets the users of one gateway authorize it at a server, which is another gateway. Both gateways accept tokens of a
// real OpenID provider. Clients of the Go SDK of both eras ask the users to open the pages in their browsers.
func TestGrantsOfUsersWithRealProvider(t *testing.T) {
	issuer, inside, outside, everything := rig.OpenID(t), netns.Addr(), netns.Addr(), rig.EverythingCommand(t)
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.jsonl")
	inner := rig.StartOne(t, "it reads the files of grants, which a store replaces", rig.Config{
		"listen": inside, "public_url": "http://" + inside,
		"auth":      rig.Config{"mode": "jwt", "jwt": []rig.Config{{"issuer": issuer, "required_scopes": []string{"mcp"}}}},
		"policy":    rig.Config{"default": "allow"},
		"telemetry": rig.Config{"audit": rig.Config{"file": audit}},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	login := register(t, issuer, "http://"+outside+"/oauth/login")
	config := rig.Config{
		"listen": outside, "public_url": "http://" + outside, "state_dir": filepath.Join(dir, "state"),
		"auth": rig.Config{"mode": "jwt", "jwt": []rig.Config{
			{"issuer": issuer, "login": rig.Config{"client_id": login.id, "client_secret": login.secret}},
		}},
		"policy":    rig.Config{"default": "allow"},
		"upstreams": rig.Upstreams{"a": {"url": inner.URL, "auth": rig.Config{"kind": "user"}}},
	}
	logIn(t, config, "a", "service", issuer) // the catalog session uses this grant
	outer := rig.StartOne(t, "it reads the files of grants, which a store replaces", config)

	a := register(t, issuer, "http://127.0.0.1:1/callback")
	open := func(user, url string) string {
		resp, err := browserOf(t, user, issuer).Get(url)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(page)
	}
	for user, era := range map[string]string{"ann": client.Modern, "bob": client.Legacy} {
		t.Run(user+", "+era, func(t *testing.T) {
			other := map[string]string{"ann": "bob", "bob": "ann"}[user]
			var mu sync.Mutex
			asked := 0
			give := func(url string) {
				mu.Lock()
				asked++
				mu.Unlock()
				if page := open(other, url); !strings.Contains(page, "for another user than the one who is logged in") {
					t.Errorf("%s opens the link of %s and sees %s", other, user, page)
				}
				if page := open(user, url); !strings.Contains(page, "Access to a is granted") {
					t.Errorf("%s sees %s", user, page)
				}
				if page := open(user, url); !strings.Contains(page, "has expired") {
					t.Errorf("%s opens the link again and sees %s", user, page)
				}
			}
			token := a.tokens(t, user, outer.URL, "mcp").Access
			if !strings.HasPrefix(token, tokenHead) {
				t.Errorf("a token begins with %.20s, not with %s", token, tokenHead)
			}
			session := connectAs(t, era, outer.URL, token, give)
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				params := &mcp.CallToolParams{Name: "a__e__echo", Arguments: map[string]any{"message": "hello"}}
				result, err := session.CallTool(ctx, params)
				var fault *jsonrpc.Error
				if errors.As(err, &fault) && fault.Code == -32042 { // URL elicitation required: a legacy client opens the URLs and retries
					var data struct {
						Elicitations []struct{ URL string }
					}
					if err := json.Unmarshal(fault.Data, &data); err != nil || len(data.Elicitations) != 1 {
						t.Fatalf("%s: %v", fault.Data, err)
					}
					give(data.Elicitations[0].URL)
					result, err = session.CallTool(ctx, params)
				}
				if err != nil {
					t.Fatal(err)
				}
				text, ok := result.Content[0].(*mcp.TextContent)
				if !ok || !strings.Contains(text.Text, "hello") {
					t.Errorf("got %+v", result)
				}
			}
			if asked != 1 {
				t.Errorf("%s was asked %d times for the grant", user, asked)
			}
		})
	}

	// The server saw each call with the caller's principal.
	data, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var l struct {
			Event, Item string
			Principal   struct{ Subject string }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Event == "decision" && l.Item == "e__echo" {
			calls[l.Principal.Subject]++
		}
	}
	if len(calls) != 2 || calls["ann"] != 2 || calls["bob"] != 2 {
		t.Errorf("calls by principal: %v", calls)
	}
	// No token may appear in the logs and answers. Every token begins with the same three letters.
	for name, text := range map[string]string{"the audit": string(data), "the log of the gateway": outer.Process.Output(), "the log of the server": inner.Process.Output()} {
		if strings.Contains(text, "eyJ") || strings.Contains(text, login.secret) {
			t.Errorf("%s contains a token or a secret", name)
		}
	}
	files := 0
	err = filepath.WalkDir(filepath.Join(dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if strings.Contains(path, "grants") && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), tokenHead) {
			t.Errorf("%s contains a token", path)
		}
		return err
	})
	if err != nil || files < 4 { // a key and three grants
		t.Errorf("%d files of state, %v", files, err)
	}
}

// connectAs connects a client of the Go SDK with a token. Its user authorizes the gateway when a URL asks for it.
func connectAs(t *testing.T, era, endpoint, token string, give func(url string)) *mcp.ClientSession {
	t.Helper()
	options := &mcp.ClientSessionOptions{}
	if era == client.Legacy {
		options.ProtocolVersion = "2025-11-25"
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "user", Version: "1.0.0"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			give(r.Params.URL)
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	connections := &http.Transport{}
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
		return connections.RoundTrip(r)
	})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		connections.CloseIdleConnections()
	})
	return session
}
