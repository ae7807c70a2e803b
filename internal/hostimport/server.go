package hostimport

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

// entry reads one server of a host.
func (im *importer) entry(key string, at, n *yaml.Node, p configfile.Path, folder string) {
	s := &server{key: key, file: im.host.Name, gateway: im.host.Gateway, at: configfile.PosOf(at), path: p, folder: folder}
	im.server, im.here = s, s.at
	if n.Kind != yaml.MappingNode {
		im.warn(p, "is left out: it must be a mapping, not %s", configfile.KindOf(n))
		return
	}
	given := im.file.Pairs(n, p)
	local, remote := im.hasValue(given, "command"), im.hasValue(given, "url", "serverUrl", "httpUrl")
	for _, pr := range given {
		im.here = configfile.PosOf(pr.Value)
		im.key(pr, im.at(p, pr.Name))
	}
	im.here = s.at
	switch {
	case !local && !remote:
		im.warn(p, "is left out: it has neither a command nor a url")
		return
	case local && remote:
		im.warn(p, "is left out: it has both a command and a url")
		return
	}
	im.finish(p, local)
	im.servers = append(im.servers, s)
}

// at is the path of a key of the current server, as the file spells it.
func (im *importer) at(p configfile.Path, key string) configfile.Path {
	if spelt := im.spelt[key]; spelt != "" {
		return p.Key(spelt, key)
	}
	return p.Key(key, key)
}

func (im *importer) hasValue(given []configfile.Pair, names ...string) bool {
	return slices.ContainsFunc(given, func(p configfile.Pair) bool {
		return slices.Contains(names, p.Name) && !configfile.IsNull(p.Value) && (p.Value.Kind != yaml.ScalarNode || p.Value.Value != "")
	})
}

// key reads one key of a server. Hosts use different keys, but no key has two meanings.
func (im *importer) key(pr configfile.Pair, at configfile.Path) {
	s, n := im.server, pr.Value
	if configfile.IsNull(n) {
		return
	}
	before := len(s.headers)
	defer func() {
		if len(s.headers) > before {
			s.headerKeys = append(s.headerKeys, pr.Name)
		}
	}()
	switch pr.Name {
	case "command":
		im.command(n, at)
	case "args":
		s.args = append(s.args, im.strings(n, at)...)
	case "env", "environment":
		s.env = append(s.env, im.dictionary(n, at)...)
	case "envFile":
		s.envFile = im.string(n, at)
	case "cwd", "workingDirectory", "working_directory":
		s.cwd = im.string(n, at)
	case "url", "serverUrl", "httpUrl":
		s.url = im.string(n, at)
	case "headers", "http_headers":
		s.headers = append(s.headers, im.dictionary(n, at)...)
	case "bearer_token_env_var":
		if value := im.envValue(n, at); value != "" {
			s.headers = append(s.headers, entry{"Authorization", "Bearer " + value})
		}
	case "env_http_headers":
		for _, p := range im.children(n) {
			if value := im.envValue(p.Value, at.Key(p.Name, p.Name)); value != "" {
				s.headers = append(s.headers, entry{p.Name, value})
			}
		}
	case "env_vars": // variables that the program gets from the environment of the host
		for i, item := range n.Content {
			item = configfile.Resolve(item)
			if value := im.envValue(item, at.Item(i)); value != "" {
				s.env = append(s.env, entry{item.Value, value})
			}
		}
	case "requestOptions":
		for _, p := range im.children(n) {
			if p.Name == "headers" {
				s.headers = append(s.headers, im.dictionary(p.Value, at.Key(p.Name, p.Name))...)
			}
		}
	case "type", "transport", "transportType":
		im.transport(n, at)
	case "disabled":
		s.disabled = s.disabled || im.truth(n, at)
	case "enabled", "isActive":
		s.disabled = s.disabled || !im.truth(n, at)
	case "disabledTools", "excludeTools", "disabled_tools":
		s.deny = append(s.deny, im.strings(n, at)...)
	case "enabledTools", "includeTools", "enabled_tools":
		im.only(n, at)
	case "tools":
		s.none = n.Kind == yaml.SequenceNode && len(n.Content) == 0 // as Copilot CLI writes it
		im.only(n, at)
	case timeoutKey:
		im.timeout(n.Value, at)
	case "startup_timeout_sec":
		im.warn(at, "is left out: it has no counterpart; see startup_wait")
	case "tool_timeout_sec":
		im.warn(at, "is left out; write timeout for how long a call may go on without progress, such as timeout: 60s")
	case "timeout", "timeoutMs":
		if ms, err := strconv.ParseInt(n.Value, 10, 32); err == nil && im.host.isGemini() {
			im.timeout(fmt.Sprintf("%dms", ms), at)
			return
		}
		im.warn(at, "is left out: hosts do not agree on its unit; write timeout with one, such as timeout: 60s")
	case "name", "source", "description", "title", "$schema", "version", "icon", "gallery", "provider", "autoStart":
	default:
		if hint := config.HostKeyHint(pr.Name); hint != "" {
			im.warn(at, "has no effect here and is left out; %s", hint)
		} else {
			im.warn(at, "has no effect here and is left out")
		}
	}
}

// timeout reads how long a call may run without progress, which no valid configuration bounds by more than max_duration.
func (im *importer) timeout(text string, at configfile.Path) {
	d, err := time.ParseDuration(text)
	most := config.DefaultUpstream("x").MaxDuration
	switch {
	case err != nil || d <= 0:
		im.warn(at, "is left out: it must be a time above 0")
	case d > most:
		im.warn(at, "is left out: a longer timeout than %v needs max_duration too", most)
	case d%time.Second == 0:
		im.server.timeout = fmt.Sprintf("%ds", d/time.Second)
	default:
		im.server.timeout = fmt.Sprintf("%dms", d/time.Millisecond)
	}
}

// command reads the program: a string, a list with its arguments, or a mapping of both.
func (im *importer) command(n *yaml.Node, at configfile.Path) {
	s := im.server
	switch n.Kind {
	case yaml.SequenceNode:
		words := im.strings(n, at)
		if len(words) > 0 {
			s.command, s.args = words[0], append(words[1:], s.args...)
		}
	case yaml.MappingNode:
		for _, p := range im.children(n) {
			inside := at.Key(p.Name, p.Name)
			switch p.Name {
			case "path":
				s.command = im.string(p.Value, inside)
			case "args":
				s.args = append(s.args, im.strings(p.Value, inside)...)
			case "env":
				s.env = append(s.env, im.dictionary(p.Value, inside)...)
			}
		}
	default:
		s.command = im.string(n, at)
	}
}

// transport reads the type or transport of a host.
func (im *importer) transport(n *yaml.Node, at configfile.Path) {
	switch word := strings.ToLower(n.Value); word {
	case "sse":
		im.server.transport = string(config.TransportSSE)
	case "streamable-http", "streamablehttp", "streamable_http":
		im.server.transport = string(config.TransportStreamable)
	case "", "stdio", "local", "http", "remote", "auto":
	default:
		im.warn(at, "is left out: no transport has this name; write stdio, http, streamable-http or sse")
	}
}

// only reads the tools that a host uses.
func (im *importer) only(n *yaml.Node, at configfile.Path) {
	if n.Kind != yaml.SequenceNode {
		im.warn(at, "is left out: it must be a list of names")
		return
	}
	if names := im.strings(n, at); !slices.Contains(names, "*") {
		im.server.allow = append(im.server.allow, names...)
	}
}

// envValue reads the name of an environment variable, and refers to its value.
func (im *importer) envValue(n *yaml.Node, at configfile.Path) string {
	if n.Kind != yaml.ScalarNode || !variable.MatchString(n.Value) {
		im.warn(at, "is left out: it must be the name of an environment variable")
		return ""
	}
	return im.refs("${"+n.Value+"}", at)
}

// string reads a scalar. Hosts accept a number in place of a string.
func (im *importer) string(n *yaml.Node, at configfile.Path) string {
	if n.Kind != yaml.ScalarNode {
		im.warn(at, "is left out: it must be a string, not %s", configfile.KindOf(n))
		return ""
	}
	if strings.ContainsRune(n.Value, 0) {
		im.warn(at, "is left out: it contains a null byte")
		return ""
	}
	return im.refs(n.Value, at)
}

func (im *importer) strings(n *yaml.Node, at configfile.Path) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{im.string(n, at)}
	}
	if n.Kind != yaml.SequenceNode {
		im.warn(at, "is left out: it must be a list, not %s", configfile.KindOf(n))
		return nil
	}
	var out []string
	for i, item := range n.Content {
		item = configfile.Resolve(item)
		if !im.file.Spend(item) {
			return out
		}
		im.here = configfile.PosOf(item)
		out = append(out, im.string(item, at.Item(i)))
	}
	return out
}

// dictionary reads a mapping of names to scalars; a name with null is left out.
func (im *importer) dictionary(n *yaml.Node, at configfile.Path) []entry {
	if n.Kind != yaml.MappingNode {
		im.warn(at, "is left out: it must be a mapping, not %s", configfile.KindOf(n))
		return nil
	}
	var out []entry
	for _, p := range im.file.Pairs(n, at) {
		inside := at.Key(p.Name, p.Name)
		im.here = configfile.PosOf(p.Value)
		if configfile.IsNull(p.Value) {
			im.warn(inside, "is left out: it has no value")
			continue
		}
		if text := im.string(p.Value, inside); p.Value.Kind == yaml.ScalarNode {
			out = append(out, entry{p.Name, im.moveValue(p.Name, text, inside)})
		}
	}
	return out
}

func (im *importer) truth(n *yaml.Node, at configfile.Path) bool {
	switch strings.ToLower(n.Value) {
	case "true":
		return true
	case "false":
		return false
	}
	im.warn(at, "is neither true nor false; it is read as false")
	return false
}

func (im *importer) warn(at configfile.Path, format string, args ...any) {
	im.file.Warnf(&yaml.Node{Line: im.here.Line, Column: im.here.Col}, at, format, args...)
}

// finish completes a server: it removes keys without effect, moves secrets, and makes paths absolute.
func (im *importer) finish(p configfile.Path, local bool) {
	s := im.server
	if !local {
		s.url = im.moveFromURL(s.url, im.at(p, "url"))
		im.noteSecrets(s.url, im.at(p, "url"))
		s.headers = im.withoutReserved(s.headers, p)
		if len(s.args) > 0 || s.cwd != "" || s.envFile != "" || len(s.env) > 0 {
			im.warn(p, "has a url, so env, args, cwd and envFile are left out; to send a value, use headers")
		}
		s.args, s.cwd, s.envFile, s.env = nil, "", "", nil
		return
	}
	if words := strings.Fields(s.command); len(s.args) == 0 && len(words) > 1 && !strings.ContainsAny(words[0], `/\'"`) {
		s.command, s.args = words[0], words[1:]
		im.warn(im.at(p, "command"), "is a command line; it is split at its spaces")
	}
	s.command = im.moveFromText("command", s.command, im.at(p, "command"))
	s.args = im.moveFromArgs(s.args, im.at(p, "args"))
	for i, arg := range s.args {
		s.args[i] = im.forProgram(arg)
		im.noteSecrets(arg, im.at(p, "args").Item(i))
	}
	if len(s.headers) > 0 {
		are := "are"
		if slices.Equal(s.headerKeys, []string{"bearer_token_env_var"}) {
			are = "is"
		}
		im.warn(p, "has a command, so %s %s left out", strings.Join(s.headerKeys, " and "), are)
	}
	s.headers, s.transport = nil, ""
	s.cwd = im.absolute(s.cwd)
	s.envFile = im.absolute(s.envFile)
	relative := func(word string) bool { return strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") }
	if s.cwd == "" && filepath.IsAbs(s.folder) &&
		(strings.HasPrefix(p.Text, "projects.") || relative(s.command) || slices.ContainsFunc(s.args, relative)) {
		s.cwd = s.folder // the working directory of the host
	}
}

// absolute is a path that does not depend on the folder of gateway.yaml.
func (im *importer) absolute(name string) string {
	switch {
	case name == "" || strings.HasPrefix(name, "\x00") || filepath.IsAbs(name):
		return name
	case name == "~" || strings.HasPrefix(name, "~/"):
		return im.mark(&placeholder{ref: "HOME"}) + name[1:]
	}
	return filepath.Join(im.server.folder, name)
}

// withoutReserved removes the headers that the gateway sets itself.
func (im *importer) withoutReserved(headers []entry, p configfile.Path) []entry {
	return slices.DeleteFunc(headers, func(h entry) bool {
		own := config.IsReservedHeader(h.name)
		if own {
			im.warn(p.Key("headers", "headers").Key(h.name, h.name), "is left out: the gateway sets this header itself")
		}
		return own
	})
}
