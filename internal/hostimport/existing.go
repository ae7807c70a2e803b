package hostimport

import (
	"cmp"
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
		if (u.Name == name || found == "") && im.isUpstream(s, u) {
			found = u.Name
		}
	}
	return found
}

// hasUpstream reports whether Into has an upstream of a name.
func (im *importer) hasUpstream(name string) bool {
	return im.Into != nil && slices.ContainsFunc(im.Into.Upstreams, func(u config.Upstream) bool { return u.Name == name })
}

// isUpstream reports whether a server is an upstream: it has the same command and arguments or the same URL, and
// everything that the host sets for the connection has the same value there. The upstream may set more, such as
// variables of its envFile.
func (im *importer) isUpstream(s *server, u config.Upstream) bool {
	if s.url != "" {
		return slices.ContainsFunc(u.AllURLs(), func(at string) bool { return im.is(s.url, at) }) && im.haveEntries(s.headers, u.Headers, u, "headers")
	}
	return im.is(s.command, u.Command) && slices.EqualFunc(s.args, u.Args, im.is) && im.haveEntries(s.env, u.Env, u, "env") &&
		(s.cwd == "" || im.is(s.cwd, u.Cwd)) && (s.envFile == "" || im.is(s.envFile, u.EnvFile))
}

// haveEntries reports whether an upstream has these entries of a key. An entry whose variable is not set counts, since it
// has no value.
func (im *importer) haveEntries(entries []entry, have map[string]config.Secret, u config.Upstream, key string) bool {
	return !slices.ContainsFunc(entries, func(e entry) bool {
		value, found := have[e.name]
		unset := slices.ContainsFunc(u.Unset, func(v config.UnsetVariable) bool { return strings.HasSuffix(v.Place.Path, "."+key+"."+e.name) })
		return !unset && (!found || !im.is(e.value, value.Reveal()))
	})
}

// is reports whether a text of a host has a value in the configuration. The content of a file may be anything, since this
// package reads none.
func (im *importer) is(text, value string) bool {
	text = im.expand(text, im.actual)
	if !strings.Contains(text, fileStart) {
		return text == value
	}
	return regexp.MustCompile("^" + contentOfFile.ReplaceAllString(regexp.QuoteMeta(text), "(?s:.*)") + "$").MatchString(value)
}

// The path of a file stands between two characters in the place of its content.
const fileStart, fileEnd = "\x01", "\x02"

var contentOfFile = regexp.MustCompile("(?s:" + fileStart + ".*?" + fileEnd + ")")

// actual is the value of a placeholder, as far as it is known.
func (im *importer) actual(p *placeholder) string {
	if p.moved {
		return im.expand(p.text, im.actual)
	}
	if path, ok := strings.CutPrefix(p.ref, "file:"); ok {
		return fileStart + path + fileEnd
	}
	name, fallback, has := strings.Cut(cmp.Or(p.ref, p.base), ":-")
	known, set := im.lookup(name)
	switch {
	case has && known == "":
		return fallback
	case !set:
		return "${" + name + "}" // the text of a value that lacks its variable
	}
	return known
}

// lookup returns the value of a variable: that of the configuration which is imported into, else that of the environment.
func (im *importer) lookup(name string) (string, bool) {
	if im.Into != nil {
		return im.Into.Variable(name)
	}
	return os.LookupEnv(name)
}
