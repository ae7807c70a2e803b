package config

import (
	"bytes"
	"cmp"
	"runtime"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/configfile"
)

// check makes the checks that need the whole file, and completes the Config.
func (doc *document) check(m *mapping) {
	empty := !m.intended["upstreams"] && m.given["upstreams"].IsEmpty()
	switch {
	case empty && m.given["upstreams"].Name == "upstreams":
		m.warnf("upstreams", "no upstreams yet; add one, such as with gateway add%s", advice.ConfigFlag())
	case empty:
		what := "no upstreams; add one"
		if len(bytes.TrimSpace(m.d.data)) == 0 {
			what = "the file is empty; write an upstream"
		}
		m.errorf("upstreams", "%s under upstreams, such as files: {command: npx, args: "+
			`["-y", "@modelcontextprotocol/server-filesystem", "/data"]}`, what)
	}
	if exposed := doc.exposed(doc.Listen); exposed != "" && !(exposed == reboundMsg && (m.intended["allowed_hosts"] || m.intended["public_url"])) {
		m.errorf("listen", "%s", exposed)
	}
	if sameAddress(doc.Listen, doc.Admin.Listen) {
		m.errorf("listen", "is also the address of admin.listen; give each its own")
	}
	doc.checkAuth(m)
	doc.derive(m.d.env, m.d.dir)
	doc.EnvFile = inFolder(m.d.dir, doc.EnvFile)
	doc.checkFolders(m.d)
	doc.checkStore(m)
	doc.checkNames()
	doc.checkProfiles(m.d)
	doc.checkRules(m.d)
	doc.checkUsable(m)
	doc.checkConsole(m)
	doc.checkPrincipals()
	for i := range doc.Upstreams {
		doc.Config.Upstreams = append(doc.Config.Upstreams, doc.Upstreams[i].Upstream)
	}
	enabled := func(u Upstream) bool { return !u.Disabled }
	if len(doc.Config.Upstreams) > 0 && !slices.ContainsFunc(doc.Config.Upstreams, enabled) {
		m.warnf("upstreams", "every upstream is disabled")
	}
}

// checkPrincipals warns of per-principal sessions without authentication, and keeps principals from sharing
// a session to which each of them authenticates.
func (doc *document) checkPrincipals() {
	for i := range doc.Upstreams {
		e := &doc.Upstreams[i]
		switch alone := doc.Auth.Has(AuthNone); {
		case alone && e.Session == SessionPerPrincipal && !e.Disabled:
			e.at.warnf("session", "per-principal is the same as shared with auth.mode: none, because everybody is the same principal; use per-client")
		case alone || e.Session != SessionShared || !e.PerPrincipal():
		case e.at.has("session"):
			e.at.errorf("session", "with shared, principals would share a session to which each of them authenticates; use per-principal or per-client")
		default:
			e.Session = SessionPerPrincipal
		}
	}
}

// checkNames demands that the names and prefixes of upstreams differ. The name of an upstream without a
// prefix counts as a prefix, since some of its items are published under it.
func (doc *document) checkNames() {
	names, prefixes := make(map[string]*entry), make(map[string]*entry)
	for i := range doc.Upstreams {
		e := &doc.Upstreams[i]
		if first := names[e.Name]; first != nil {
			e.at.errorf("", "has the name %s here, like %s at %v; rename one of them", e.Name, configfile.Quote(first.Key), first.Pos)
			continue
		}
		names[e.Name] = e
		prefix := cmp.Or(e.EffectivePrefix(), e.Name)
		if first := prefixes[prefix]; first != nil {
			e.at.errorf("prefix", "the prefix %s is also the prefix of %s at %v; set prefix for one of them", prefix, configfile.Quote(first.Key), first.Pos)
			continue
		}
		prefixes[prefix] = e
		// The first separator must follow the prefix, or a public name could be read in two ways.
		if sep := doc.Namespace.Separator; strings.Index(prefix+sep, sep) != len(prefix) {
			e.at.errorf("prefix", "with the prefix %s and namespace.separator %s public names would be ambiguous; set another prefix", prefix, configfile.Quote(sep))
		}
	}
}

// check merges the keys of hosts into the Upstream, and checks combinations of keys.
func (e *entry) check(m *mapping) {
	e.at = m
	e.Key, e.Name, e.Pos = m.key, NameOf(m.key), m.pos()
	if e.Name != e.Key {
		m.warnf("", "is named %s here", e.Name)
	}
	e.Unset = m.d.takeUnset()
	e.checkURLs(m)
	e.checkKind(m)
	e.checkTransport(m)
	e.checkEnabled(m)
	e.checkCommand(m)
	e.checkSession(m)
	e.checkAuth(m)
	e.checkTLS(m)
	e.warnCleartext(m)
	if m.has("timeout") && e.Timeout > e.MaxDuration {
		m.errorf("timeout", "is longer than max_duration, which is %v and ends a call first; raise max_duration too", e.MaxDuration)
	}
	e.checkLimits(m)
	if e.IdleStop > 0 && e.IdleStop < time.Second {
		m.errorf("idle_stop", "must be at least 1s, or 0 to never stop it")
	}
	e.checkResources(m)
	e.Cwd = inFolder(m.d.dir, e.Cwd)
	e.EnvFile = inFolder(m.d.dir, e.EnvFile)
	e.URLPlace, e.CAPlace, e.ClientCertPlace = m.placeError(urlKey(m)), m.placeError("ca"), m.placeError("client_cert")
	if e.EnvFile != "" && !isRemote(m) && !e.lacks("envFile") {
		e.mergeEnvFile(m)
	}
}

// checkTLS refuses keys of TLS for programs and for URLs without TLS.
func (e *entry) checkTLS(m *mapping) {
	for _, key := range []string{"ca", "client_cert"} {
		switch {
		case !m.has(key):
		case m.has("command") && !isRemote(m):
			m.errorf(key, notForCommand)
		case !slices.ContainsFunc(e.AllURLs(), func(u string) bool { return strings.HasPrefix(u, "https:") }) && e.URL != "":
			m.errorf(key, "is for https, and %s has http; write https://, or remove this key", urlKey(m))
		}
	}
	e.CA = inFolder(m.d.dir, e.CA)
}

// system is the operating system; tests replace it.
var system = runtime.GOOS

// checkLimits refuses limits with which no program starts, and warns of those that the system
// does not support.
func (e *entry) checkLimits(m *mapping) {
	l := e.Limits
	switch {
	case l == ProcessLimits{}:
		return
	case m.has("url"):
		m.errorf("limits", notForURL)
		return
	}
	if l.Memory > 0 && l.Memory < minMemory {
		m.errorf("limits", "memory must be at least %v, or 0 for no limit; with less no program starts", Size(minMemory))
	}
	if l.Files > 0 && l.Files < minFiles {
		m.errorf("limits", "files must be at least %d, or 0 for no limit; with less no program starts", minFiles)
	}
	if l.Memory > 0 && system != "linux" {
		m.warnf("limits", "memory has no effect on this system: only Linux shows what other processes use; set a limit in the server's own configuration, such as NODE_OPTIONS=--max-old-space-size=512 under env")
	}
	if l.Files > 0 && system == "windows" {
		m.warnf("limits", "files has no effect on this system: Windows has no such limit")
	}
}

// checkResources demands globs that can match a URI.
func (e *entry) checkResources(m *mapping) {
	if !m.has("resources") {
		return
	}
	given, p := m.place("resources")
	for _, l := range []struct {
		key   string
		globs []string
	}{{"allow", e.Resources.Allow}, {"deny", e.Resources.Deny}} {
		list := configfile.Child(given, l.key)
		for i, glob := range l.globs {
			if mayBeURI(glob) || list == nil || list.Kind != yaml.SequenceNode || i >= len(list.Content) {
				continue
			}
			right := `"*` + strings.TrimLeft(glob, "/") + `"`
			if strings.HasPrefix(glob, "/") {
				right = configfile.Quote("file://" + glob)
			}
			m.d.Errorf(configfile.Resolve(list.Content[i]), p.Key(l.key, l.key).Item(i), "no URI begins like %s; begin with a scheme or an asterisk, such as %s", configfile.Quote(glob), right)
		}
	}
}

// mayBeURI reports whether a glob can match a URI or a URI template.
func mayBeURI(glob string) bool {
	scheme, _, star := strings.Cut(glob, "*")
	scheme, _, colon := strings.Cut(scheme, ":")
	scheme, _, expression := strings.Cut(scheme, "{")
	if !star && !colon && !expression {
		return false
	}
	for i, c := range []byte(scheme) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || strings.IndexByte("+.-", c) >= 0)) {
			return false
		}
	}
	return true
}

// isRemote reports whether an upstream has the URL of a remote server.
func isRemote(m *mapping) bool { return m.has("url") || m.has("urls") }

// urlKey returns the key of the upstream's URLs.
func urlKey(m *mapping) string {
	if m.has("urls") && !m.has("url") {
		return "urls"
	}
	return "url"
}

// checkURLs demands url or urls, and makes the first of urls the URL.
func (e *entry) checkURLs(m *mapping) {
	switch {
	case m.has("url") && m.has("urls"):
		m.errorf("urls", "contradicts url; list all URLs under urls and remove url")
		return
	case len(e.URLs) == 0:
		if m.has("urls") {
			m.errorf("urls", "is empty; list the URLs of the server, or write url")
		}
		return
	}
	for i, u := range e.URLs {
		if slices.Contains(e.URLs[:i], u) {
			m.errorf("urls", "has one URL twice; list each once")
			return
		}
	}
	e.URL = e.URLs[0]
}

// checkKind demands either a command or a url, and no keys of the other kind. Empty values of the other
// kind are accepted, since some hosts write them.
func (e *entry) checkKind(m *mapping) {
	local, remote := m.has("command"), isRemote(m)
	switch {
	case local && remote:
		m.errorf(urlKey(m), "an upstream has command or url, not both")
	case !local && !remote && (m.intended["command"] || m.intended["url"] || m.intended["urls"]): // reported already
	case !local && !remote:
		m.errorf("", "needs command, for a program to start, or url, for a remote server")
	case local && len(e.Headers) > 0:
		m.errorf("headers", "is for remote servers, but this upstream has command; to pass a value, use env")
	case remote:
		for _, program := range []struct {
			key string
			set bool
		}{{"args", len(e.Args) > 0}, {"inherit_env", len(e.InheritEnv) > 0}, {"cwd", e.Cwd != ""}, {"envFile", e.EnvFile != ""}} {
			if program.set {
				m.errorf(program.key, notForURL)
			}
		}
		if len(e.Env) > 0 { // examples of some hosts have it
			m.warnf("env", "has no effect with url; to send a value, use headers")
		}
	}
}

const (
	notForURL     = "is for programs, but this upstream has url; remove it"
	notForCommand = "is for remote servers, but this upstream has command; remove it"
)

// checkTransport derives the transport from transport, type, command and url.
func (e *entry) checkTransport(m *mapping) {
	named, typed := transports[e.Type]
	switch local, remote := m.has("command"), isRemote(m); {
	case local == remote: // reported already
	case local:
		if typed && named != TransportStdio {
			m.errorf("type", notForCommand)
		}
		if e.Transport == TransportStreamable || e.Transport == TransportSSE {
			m.errorf("transport", notForCommand)
		}
		e.Transport = TransportStdio
	case named == TransportStdio:
		m.errorf("type", notForURL)
	case e.Transport == TransportStdio:
		m.errorf("transport", notForURL)
	case !typed || named == TransportAuto:
		e.Transport = cmp.Or(e.Transport, TransportAuto)
	case e.Transport == "" || e.Transport == TransportAuto:
		e.Transport = named
	case e.Transport != named:
		m.errorf("type", "%s contradicts transport %s; keep one of them", e.Type, e.Transport)
	}
}

// checkSession warns of keys that belong to other values of session.
func (e *entry) checkSession(m *mapping) {
	switch {
	case e.Session == SessionShared && m.has("max_sessions"):
		m.warnf("max_sessions", "has no effect with session: shared; it bounds the sessions of per-client and per-principal")
	case e.Session != SessionShared && len(e.Roots) > 0:
		m.warnf("roots", "has no effect with session: %s, since the roots of clients count; use session: shared, or remove it", e.Session)
	}
}

// checkEnabled derives disabled from enabled.
func (e *entry) checkEnabled(m *mapping) {
	if e.Enabled == nil {
		return
	}
	if m.has("disabled") && e.Disabled == *e.Enabled {
		m.errorf("enabled", "contradicts disabled; keep one of them")
	}
	e.Disabled = !*e.Enabled
}
