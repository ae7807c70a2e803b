package hostimport

import (
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"mcpgateway/internal/config"
)

// existing returns the name of the upstream of Into that is the same as a server, "" if there is none. An upstream with
// this name comes first.
func (im *importer) existing(s *server, name string) string {
	found := ""
	if im.Into == nil {
		return found
	}
	for _, u := range im.Into.Upstreams {
		if (u.Name == name || found == "") && im.differs(s, u) == "" {
			found = u.Name
		}
	}
	return found
}

// hasUpstream reports whether Into has an upstream of a name.
func (im *importer) hasUpstream(name string) bool {
	return im.Into != nil && slices.ContainsFunc(im.Into.Upstreams, func(u config.Upstream) bool { return u.Name == name })
}

// otherThan says how the upstream of a name differs from a server, which is not the same.
func (im *importer) otherThan(s *server, name string) string {
	for _, u := range im.Into.Upstreams {
		if u.Name != name {
			continue
		}
		switch key := im.differs(s, u); key {
		case serverKey:
		case "headers":
			return "has the same url and other headers"
		default:
			return "has the same command and another " + key
		}
	}
	return "is another server"
}

// connection is what makes a server the one that it is: how it is started, or where it is and what it is sent. Two
// servers with another env may have other data. Everything else, such as a timeout, is a setting.
type connection struct {
	command, cwd, envFile string
	args, urls            []string
	env, headers          map[string]string
	fileEnv               map[string]string // the variables that only envFile sets, as far as they are known
}

// connection returns that of a server. Hosts spell the same value differently, such as ${userHome} and the path, so
// references count by their values, see [importer.actual].
func (im *importer) connection(s *server) connection {
	actual := func(text string) string { return im.expand(text, im.actual) }
	pairs := func(entries []entry) map[string]string {
		m := make(map[string]string)
		for _, e := range entries {
			m[e.name] = actual(e.value)
		}
		return m
	}
	c := connection{
		command: actual(s.command), cwd: actual(s.cwd), envFile: actual(s.envFile), args: im.expandAll(s.args, im.actual),
		env: pairs(s.env), headers: pairs(s.headers),
	}
	if s.url != "" {
		c.urls = []string{actual(s.url)}
	}
	return c
}

// connectionOf returns that of an upstream.
func connectionOf(u config.Upstream) connection {
	reveal := func(secrets map[string]config.Secret, which func(name string) bool) map[string]string {
		m := make(map[string]string)
		for name, value := range secrets {
			if which(name) {
				m[name] = value.Reveal()
			}
		}
		return m
	}
	fromFile := func(name string) bool { return slices.Contains(u.FileEnv, name) }
	c := connection{
		command: u.Command, cwd: u.Cwd, envFile: u.EnvFile, args: u.Args,
		env:     reveal(u.Env, func(name string) bool { return !fromFile(name) }),
		fileEnv: reveal(u.Env, fromFile),
		headers: reveal(u.Headers, func(string) bool { return true }),
	}
	for _, v := range u.Unset {
		switch v.Key {
		case "env":
			c.env[v.Entry] = v.Known().Reveal()
		case "headers":
			c.headers[v.Entry] = v.Known().Reveal()
		}
	}
	if u.URL != "" {
		c.urls = u.AllURLs()
	}
	return c
}

// serverKey stands for a difference in the command, its arguments or the URL.
const serverKey = "server"

// differs returns the key in which an upstream differs from a server, or [serverKey], and "" if they are the same.
func (im *importer) differs(s *server, u config.Upstream) string {
	im.unset = u.Unset
	defer func() { im.unset = nil }()
	return im.connection(s).differs(connectionOf(u))
}

// differs is for a connection of a host. other is one of a host, or of an upstream, which has more: several URLs, and the
// content of files.
func (c connection) differs(other connection) string {
	if len(c.urls) > 0 {
		if !slices.ContainsFunc(other.urls, func(at string) bool { return is(c.urls[0], at) }) {
			return serverKey
		}
		return differentEntries(c.headers, other.headers, "headers")
	}
	if len(other.urls) > 0 || !is(c.command, other.command) || !slices.EqualFunc(c.args, other.args, is) {
		return serverKey
	}
	env := other.env
	switch {
	case !is(c.cwd, other.cwd):
		return "cwd"
	case c.envFile == "": // its variables may be in the envFile of the upstream
		env = maps.Clone(env)
		maps.Copy(env, other.fileEnv)
	case !is(c.envFile, other.envFile):
		return "envFile"
	}
	return differentEntries(c.env, env, "env")
}

// differentEntries returns the key if it has other entries.
func differentEntries(a, b map[string]string, key string) string {
	for name, value := range a {
		if have, found := b[name]; !found || !is(value, have) {
			return key
		}
	}
	for name := range b {
		if _, found := a[name]; !found {
			return key
		}
	}
	return ""
}

// is reports whether a text of a host is another one, or a value in the configuration. In the configuration the content
// of a file may be anything, since this package reads none.
func is(text, value string) bool {
	if !strings.Contains(text, fileStart) || strings.Contains(value, fileStart) {
		return text == value
	}
	return regexp.MustCompile("^" + contentOfFile.ReplaceAllString(regexp.QuoteMeta(text), "(?s:.*)") + "$").MatchString(value)
}

// The path of a file stands between two characters in the place of its content.
const fileStart, fileEnd = "\x01", "\x02"

var contentOfFile = regexp.MustCompile("(?s:" + fileStart + ".*?" + fileEnd + ")")

// actual is the value of a placeholder, as far as it is known: a variable that is not set stays a reference, as in the values of
// an upstream. So a value that lacks variables equals only one that refers to the same variables.
func (im *importer) actual(p *placeholder) string {
	if p.moved {
		return im.expand(p.text, im.actual)
	}
	if path, ok := strings.CutPrefix(p.ref, "file:"); ok {
		return fileStart + path + fileEnd
	}
	name, fallback, has := strings.Cut(cmp.Or(p.ref, im.numbered(p.base)), ":-")
	known, set := im.lookup(name)
	switch {
	case has && known == "":
		return fallback
	case !set:
		return "${" + name + "}"
	}
	return known
}

// numbered returns the variable that an import has named by base in the upstream that a server is compared with, see
// [importer.nameVariables]. The name is known only while the variable is not set.
func (im *importer) numbered(base string) string {
	name := base
	for _, v := range im.unset {
		number, ok := strings.CutPrefix(v.Name, base+"_")
		switch {
		case v.Name == base:
			return base
		case ok && number != "" && strings.Trim(number, "0123456789") == "":
			name = v.Name
		}
	}
	return name
}

// lookup returns the value of a variable: that of the configuration which is imported into, else that of the environment.
func (im *importer) lookup(name string) (string, bool) {
	if im.Into != nil {
		return im.Into.Variable(name)
	}
	return os.LookupEnv(name)
}
