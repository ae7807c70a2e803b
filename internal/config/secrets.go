package config

import (
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// minSecret is the length in bytes from which a value is one of [Config.Secrets]: shorter values occur in
// harmless text by chance.
const minSecret = 6

// expansion is the value of a ${…}.
type expansion struct {
	name  string // of the variable, "" for a file
	value Secret
}

// Secrets returns the values of the configuration that must be masked in texts of others, such as the
// output of a server that prints its environment: each [Secret], the values of ${NAME},
// ${input:ID} and ${file:PATH}, the variables that programs inherit by inherit_env, and the values of
// query parameters and the random parts of paths in URLs. env looks up variables.
//
// Values of fewer than six bytes are left out, and values that are plainly not secret by name and
// form: numbers, addresses, paths, and words such as "production".
func (c *Config) Secrets(env func(string) (string, bool)) []string {
	found := secrets{}
	for _, p := range c.expansions {
		found.walk(p.name, reflect.ValueOf(p.value))
	}
	found.walk("", reflect.ValueOf(c).Elem())
	if servers, err := c.Store.Servers(); err == nil {
		found.add(servers.Password)
		found.add(servers.SentinelPassword)
	}
	for _, u := range c.Upstreams {
		for _, s := range u.AllURLs() {
			found.url(s)
		}
		for _, name := range u.InheritEnv {
			if value, ok := env(name); ok {
				found.named(name, value)
			}
		}
	}
	out := make([]string, 0, len(found))
	for value := range found {
		out = append(out, value)
	}
	slices.Sort(out)
	return out
}

// secrets is a set of values.
type secrets map[string]bool

// add adds a value and its parts that are secret by themselves: the credentials after the scheme of a
// header, and the lines of a key in PEM.
func (s secrets) add(value string) {
	if value = strings.TrimSpace(value); len(value) < minSecret {
		return
	}
	s[value] = true
	if scheme, rest, found := strings.Cut(value, " "); found && isScheme(scheme) {
		s.add(rest)
	}
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
			s[line] = true
		}
	}
}

// minLine is the length in bytes from which a line of a longer value is a secret by itself.
const minLine = 16

// isScheme reports whether a word is an authentication scheme.
func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "apikey", "digest":
		return true
	}
	return false
}

// named adds a value, unless it has a name and is plain.
func (s secrets) named(name, value string) {
	if name == "" || !isPlain(name, value) {
		s.add(value)
	}
}

var (
	plainSetting = regexp.MustCompile(`^(?i:enabled|disabled|default|warning|verbose|silent|production|development|staging|testing|localhost|streamable-http|utf-?8|c\.utf-8|[a-z]{2}_[a-z]{2}\.utf-8|application/json|text/plain|text/event-stream)$`)
	plainNumber  = regexp.MustCompile(`^v?[0-9]{1,7}([.-][0-9]{1,4}){0,3}[a-z]{0,2}$`)
	plainPaths   = regexp.MustCompile(`^((~|\.\.?|[A-Za-z]:)?([/\\][\w .@+-]{0,31})+[:;,]?)+$`)
	plainRegion  = regexp.MustCompile(`^[a-z]{2}(-[a-z]{4,9}){1,2}-?[0-9]?$`)
	plainHost    = regexp.MustCompile(`^([a-z0-9-]{1,24}\.)+[a-z]{2,12}(:[0-9]{1,5})?$`)
	hostNames    = regexp.MustCompile(`(?i)host|domain|site|server|endpoint|ur[il]$|base|addr|instance`)
	plainURL     = regexp.MustCompile(`^(https?|wss?|file)://[A-Za-z0-9.:\[\]-]{0,60}(/[a-z0-9._-]{0,15})*$`)
)

// isPlain reports whether a value is a common setting, a number, a path, a host or a URL without
// user, query and random parts, and its name does not say that it is secret.
func isPlain(name, value string) bool {
	if IsSecretName(name) {
		return false
	}
	if plainHost.MatchString(value) && hostNames.MatchString(name) {
		return true
	}
	for _, form := range []*regexp.Regexp{plainSetting, plainNumber, plainRegion, plainPaths, plainURL} {
		if form.MatchString(value) {
			return !HasToken(value)
		}
	}
	_, err := netip.ParseAddrPort(value)
	if err != nil {
		_, err = netip.ParseAddr(value)
	}
	return err == nil
}

// url adds the values of the query of a URL, and the random parts of its path. Its user part is empty, as Load has checked.
func (s secrets) url(text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if isSecretPart(part) {
			s.add(part)
		}
	}
	for name, values := range u.Query() {
		for _, value := range values {
			s.named(name, value)
		}
	}
}

// walk adds each Secret in v. Its name is its key in a mapping of any names, else empty.
func (s secrets) walk(name string, v reflect.Value) {
	if secret, ok := v.Interface().(Secret); ok {
		s.named(name, secret.Reveal())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			s.walk("", v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.walk("", v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			s.walk(key.String(), v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.walk("", v.Field(i))
			}
		}
	}
}
