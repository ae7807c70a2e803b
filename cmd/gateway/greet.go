package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/hostconfig"
)

// greet tells a person how to use the gateway that has just started, after the text of moved.
func greet(out io.Writer, g *gateway.Gateway, source, moved string) {
	url := g.PublicURL()
	if source == "" {
		fmt.Fprintf(out, "No gateway.yaml found: serving the built-in demo upstreams (%s).\n", g.UpstreamNames())
	} else {
		fmt.Fprintf(out, "Serving %s (%s).\n", source, g.UpstreamNames())
	}
	fmt.Fprint(out, moved)
	// A host without a key requests a token from the issuer by itself; a shell does not.
	keys := slices.Contains(g.AuthModes(), config.AuthKey)
	var headers, header, where string
	if keys {
		headers = `, "headers": {"Authorization": "Bearer KEY"}`
	}
	if keys || slices.Contains(g.AuthModes(), config.AuthJWT) {
		header, where = " -H 'Authorization: Bearer KEY'", ", with a key or a token for KEY"
	}
	listening := ""
	if own := g.URL(); own != url {
		listening = "   (here: " + own + ")"
	}
	profiles := ""
	if names := g.ProfileNames(); len(names) > 1 {
		profiles = fmt.Sprintf("\n  profiles       %s   (at %s/NAME)", strings.Join(names[1:], ", "), url)
	}
	fmt.Fprintf(out, `
  MCP endpoint   %s%s%s
  admin          %s   (/healthz /readyz /metrics)

Paste into your host's configuration (mcp.json, …):

  {"mcpServers": {"gateway": {"type": "http", "url": "%s"%s}}}

Claude Desktop and other hosts that only start commands take:

  {"mcpServers": {"gateway": %s}}

`, url, listening, profiles, g.AdminURL(), url, headers, stdioSnippet(source))
	if source == "" {
		fmt.Fprint(out, "Next, serve your own servers: \"gateway init\" makes a gateway.yaml, \"gateway add\"\nadds a server to it, and \"gateway connect HOST\" writes the host's file for you.\n\n")
	} else {
		fmt.Fprintf(out, "This writes the host's file for you:\n\n  gateway connect HOST --http %s\n\n", url)
	}
	fmt.Fprintf(out, `Or try it from a shell%s:

  curl -s %s%s -H 'Content-Type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'

`, where, url, header)
}

// stdioSnippet is the entry with which a host starts this gateway, with absolute paths: hosts
// have a PATH and a working directory of their own.
func stdioSnippet(source string) string {
	self, err := ownPath()
	if err != nil {
		self = "gateway"
	}
	args := []string{"stdio"}
	if source != "" {
		if whole, err := filepath.Abs(source); err == nil {
			source = whole
		}
		args = hostconfig.Stdio(self, source).Args
	}
	command, _ := json.Marshal(self) // text has no other form
	list, _ := json.Marshal(args)
	return fmt.Sprintf(`{"command": %s, "args": %s}`, command, list)
}
