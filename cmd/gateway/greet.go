package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/hostconfig"
)

// greet tells a person how to use the gateway that has just started, after the text of moved.
func greet(out *console.Screen, g *gateway.Gateway, source, moved string) {
	url, columns := g.PublicURL(), out.Columns()
	serving := "No gateway.yaml found: serving the built-in demo upstreams"
	if source != "" {
		serving = "Serving " + source
	}
	fmt.Fprintln(out, console.Fold(fmt.Sprintf("%s (%s).", serving, g.UpstreamNames()), columns))
	fmt.Fprint(out, console.Fold(moved, columns))
	// A host without a key requests a token from the issuer by itself; a shell does not.
	keys := slices.Contains(g.AuthModes(), config.AuthKey)
	entry := [][]string{{`"type": "http"`, `"url": ` + quoted(url)}}
	curl := []string{"  curl -sS " + url}
	where := ""
	if keys {
		entry = append(entry, []string{`"headers": {"Authorization": "Bearer KEY"}`})
	}
	if keys || slices.Contains(g.AuthModes(), config.AuthJWT) {
		curl = append(curl, " -H 'Authorization: Bearer KEY'")
		where = ", with a key or a token for KEY"
	}
	curl = append(curl, " -H 'Content-Type: application/json'", ` -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'`)
	listening := ""
	if own := g.URL(); own != url {
		listening = "   (here: " + own + ")"
	}
	profiles := ""
	if names := g.ProfileNames(); len(names) > 1 {
		profiles = fmt.Sprintf("\n  profiles       %s   (at %s/NAME)", strings.Join(names[1:], ", "), url)
	}
	ui := ""
	if at := g.ConsoleURL(); at != "" {
		ui = "\n  console        " + at
	}
	fmt.Fprintln(out, console.Fold(fmt.Sprintf(`
  MCP endpoint   %s%s%s
  admin          %s   (/healthz /readyz /metrics)%s`, url, listening, profiles, g.AdminURL(), ui), columns))
	fmt.Fprintf(out, `
Paste into your host's configuration (mcp.json, …):

%s

`, snippet(columns, entry))
	command := "gateway"
	if self, err := ownPath(); errors.Is(err, errGoRun) {
		command = "./gateway" // it may not be in the PATH
		fmt.Fprintf(out, "%s\n\n", console.Fold("For hosts that only start commands, build the program first:\n\n  go build -o gateway ./cmd/gateway", columns))
	} else {
		fmt.Fprintf(out, "Claude Desktop and other hosts that only start commands take:\n\n%s\n\n", snippet(columns, stdioEntry(self, source)))
	}
	fmt.Fprint(out, nextStep(command, source, url))
	fmt.Fprintf(out, `Or try it from a shell%s:

%s

`, where, brokenCommand(columns, curl...))
}

// nextStep says what to do after the greeting. command starts the gateway in a shell.
func nextStep(command, source, url string) string {
	if source == "" {
		return fmt.Sprintf("Next, serve your own servers: \"%[1]s init\" makes a gateway.yaml, \"%[1]s add\"\nadds a server to it, and \"%[1]s connect HOST\" writes the host's file for you.\n\n", command)
	}
	return fmt.Sprintf("This writes the host's file for you:\n\n  %s connect HOST --http %s\n\n", command, url)
}

// snippet is the gateway's entry in a host's file: on one line, or if that is too wide for the terminal with a line for each group of members.
func snippet(columns int, members [][]string) string {
	var lines []string
	for _, line := range members {
		lines = append(lines, strings.Join(line, ", "))
	}
	const begin, end = `  {"mcpServers": {"gateway": {`, `}}}`
	return broken(columns, begin+strings.Join(lines, ", ")+end, begin+"\n    "+strings.Join(lines, ",\n    ")+"\n  "+end)
}

// broken returns a text as one line if the terminal is wide enough, else as several.
func broken(columns int, one, several string) string {
	if columns <= 0 || console.Width(one) <= columns {
		return one
	}
	return several
}

// brokenCommand returns a command for a shell, which consists of these parts: on one line, or if that is too wide for the
// terminal with a line for each part, so that it can still be copied. Each part but the first begins with a space, or is empty.
func brokenCommand(columns int, parts ...string) string {
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return broken(columns, strings.Join(parts, ""), strings.Join(parts, " \\\n   "))
}

// stdioEntry is the entry with which a host starts this gateway, with absolute paths: hosts
// have another PATH and working directory.
func stdioEntry(self, source string) [][]string {
	self = cmp.Or(self, "gateway")
	args := []string{"stdio"}
	if source != "" {
		if whole, err := filepath.Abs(source); err == nil {
			source = whole
		}
		args = hostconfig.Stdio(self, source).Args
	}
	for i, arg := range args {
		args[i] = quoted(arg)
	}
	return [][]string{{`"command": ` + quoted(self)}, {`"args": [` + strings.Join(args, ", ") + "]"}}
}

// quoted is a text as JSON.
func quoted(text string) string {
	data, _ := json.Marshal(text) // text has no other form
	return string(data)
}
