package replicas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// principals are the configuration of auth with the keys of ann and bob.
var principals = rig.Config{"mode": "api-key", "api_keys": []rig.Config{apiKey("ann"), apiKey("bob")}}

func apiKey(who string) rig.Config {
	sum := sha256.Sum256([]byte(who))
	return rig.Config{"id": who, "sha256": hex.EncodeToString(sum[:])}
}

// key has the headers of a principal.
func key(who string) http.Header { return http.Header{"X-Api-Key": {who}} }

var resultURI = regexp.MustCompile(`gateway\+result://[a-z2-7]{32}`)

// A long result that one replica has kept is read at another: in parts, by its principal, in its profile, and also after the replica was killed. What was
// changed in the store is refused.
func TestResultsAmongReplicas(t *testing.T) {
	redis, _ := rig.StartRedis(t)
	server := startServer(t, "texts", true)
	var lines strings.Builder
	for i := range 200_000 { // three values in the store
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	long := lines.String()
	server.mcp.AddTool(&mcp.Tool{Name: "long", InputSchema: map[string]any{"type": "object"}}, tool(func() string { return long }))
	server.mcp.AddTool(&mcp.Tool{Name: "json", InputSchema: map[string]any{"type": "object"}}, tool(func() string { return `{"a":["` + strings.Repeat("x", 9000) + `","y"]}` }))
	limits := rig.Config{"max_result": "4KiB"}
	r := rig.StartReplicas(t, replicas, rig.Config{
		"store":     rig.Config{"kind": "redis", "url": "redis://" + redis},
		"upstreams": rig.Upstreams{"texts": {"url": server.url}}, "auth": principals, "policy": rig.Config{"default": "allow"},
		"profiles": rig.Config{"p": limits, "q": limits},
	})
	client := func(replica int, profile, who string) *raw.Client {
		t.Helper()
		c, err := raw.OpenWith(t.Context(), r.Gateways[replica].URL+"/"+profile, raw.Legacy, key(who))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	keep := func(c *raw.Client, name string) string {
		t.Helper()
		m, err := c.Call(t.Context(), "tools/call", `{"name":"texts__`+name+`","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		uri := resultURI.FindString(m.Text)
		if uri == "" {
			t.Fatalf("no result was kept: %.300s", m.Text)
		}
		return uri
	}
	reads := func(c *raw.Client, uri, want string) {
		t.Helper()
		if m, err := c.Call(t.Context(), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil || !strings.Contains(m.Text, want) {
			t.Errorf("%s: %.300s, %v; want %q", uri, m.Text, err, want)
		}
	}
	refused := func(c *raw.Client, uri string) {
		t.Helper()
		m, err := c.Call(t.Context(), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		if fault, ok := err.(*raw.Fault); !ok || fault.Code != -32002 {
			t.Errorf("%s: %.300s, %v", uri, m.Text, err)
		}
	}
	a := client(0, "p", "ann")
	text, object, poisoned := keep(a, "long"), keep(a, "json"), keep(client(0, "p", "bob"), "json")
	b, c := client(1, "p", "ann"), client(2, "p", "ann")
	reads(b, text+"?range=0-5", `"text":"line 1"`)
	reads(b, text+"?lines=200000-200000", "line 200000")
	reads(b, text+"?grep=^line%20199999$", "199999")
	reads(b, object+"?pointer=/a/1", `"text":"y"`)
	refused(client(1, "p", "bob"), text)
	refused(client(1, "q", "ann"), text)
	refused(b, text[:len(text)-4]+"aaaa")

	keys := strings.Fields(redisCLI(t, redis, "--scan", "--pattern", "*:v1:result:*"))
	if len(keys) != 5 {
		t.Errorf("the store has the values %q, want 5", keys)
	}
	for _, key := range keys { // looks for texts long enough not to occur in sealed bytes by chance
		if value := redisCLI(t, redis, "get", key); strings.Contains(value, "line 1") || strings.Contains(value, "xxxxxxxx") {
			t.Error("the store can read a result")
		}
		if strings.TrimSpace(redisCLI(t, redis, "pttl", key)) == "-1" {
			t.Error("a value never ends")
		}
	}
	r.Gateways[0].Process.Kill()
	reads(b, text+"?range=0-5", `"text":"line 1"`)
	reads(c, object+"?pointer=/a/1", `"text":"y"`)
	for _, key := range keys[1:] { // each gets the value of another one
		redisCLI(t, redis, "copy", keys[0], key, "replace")
	}
	redisCLI(t, redis, "set", keys[0], "not sealed")
	refused(client(2, "p", "bob"), poisoned)
	refused(c, text)
}

func tool(text func() string) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text()}}}, nil
	}
}

// redisCLI runs a command at a Redis server and returns its output.
func redisCLI(t *testing.T, addr string, args ...string) string {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	out, err := exec.CommandContext(t.Context(), rig.Debian(t, "redis-cli"), append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %q: %v %s", args, err, out)
	}
	return string(out)
}
