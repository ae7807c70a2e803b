package hostimport

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
)

// Every literal value of env and headers becomes a variable, whatever it contains. Elsewhere a
// secret is recognized by the name of its flag or parameter, by the prefix of a well-known
// service, or as the password of a URL; everything else is copied.

// moveValue replaces the literal part of a value of env or headers. The word of an
// authentication scheme stays, and so does a value that consists of references alone. A value
// that refers to a file stays too: a variable of env_file cannot.
func (im *importer) moveValue(key, value string, at configfile.Path) string {
	scheme := config.AuthScheme(value)
	rest := value[len(scheme):]
	literal := unmarked(rest)
	alone := rest == "" || literal != rest && separators.MatchString(literal)
	if !alone && im.readsFile(rest) {
		im.warn(at, "refers to a file, beside which it may contain a secret; it stays in the file: look through it before you share it")
		alone = true
	}
	if alone {
		return im.withoutDefaults(value, func(string, string) bool { return true })
	}
	moved := im.move(key, rest, at)
	switch {
	case scheme != "":
		im.noteLast(moved, "what follows the word "+strings.TrimSpace(scheme))
	case literal != rest:
		im.noteLast(moved, "the whole value, which refers to other variables in the host's file")
	}
	return scheme + moved
}

var separators = regexp.MustCompile(`^[\s:;,.@/_=&?|*+-]*$`)

// readsFile reports whether a text refers to a file.
func (im *importer) readsFile(text string) (found bool) {
	im.expand(text, func(s *placeholder) string {
		found = found || strings.HasPrefix(s.ref, "file:")
		return ""
	})
	return found
}

// noteLast says what the value of a placeholder is.
func (im *importer) noteLast(mark, note string) {
	im.expand(mark, func(s *placeholder) string { s.note = note; return "" })
}

// withoutDefault is the note of a reference that had a default.
const withoutDefault = "its default in the host's file is left out, since it may be secret"

// withoutDefaults removes the defaults that may be secret from references.
func (im *importer) withoutDefaults(value string, secret func(name, fallback string) bool) string {
	return im.expand(value, func(s *placeholder) string {
		if name, fallback, has := strings.Cut(s.ref, ":-"); has && name != "DOLLAR" && secret(name, fallback) {
			s.ref, s.note = name, withoutDefault
		}
		return im.mark(s)
	})
}

var (
	flagWord   = regexp.MustCompile(`^--?[A-Za-z][\w.-]*$`)
	flagValue  = regexp.MustCompile(`(?s)^(--?[A-Za-z][\w.-]*)=(.*)$`)
	assignment = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)
	shortEnv   = regexp.MustCompile(`^-e[A-Z_][A-Z0-9_]*$`)
	headerText = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9-]*)(:\s*)(.*)$`)
)

// moveFromArgs replaces the secrets in arguments.
func (im *importer) moveFromArgs(args []string, at configfile.Path) []string {
	flag := "" // the flag whose value the next argument is
	for i, a := range args {
		here := at.Item(i)
		before := flag
		flag = ""
		m := flagValue.FindStringSubmatch(a)
		switch {
		case m != nil:
			args[i] = m[1] + "=" + im.moveFromArg(m[1], m[2], here)
		case flagWord.MatchString(unmarked(a)) && (before == "" || strings.HasPrefix(a, "--")):
			flag = a
		default:
			args[i] = im.moveFromArg(before, a, here)
		}
	}
	return args
}

// moveFromArg replaces the secrets in the value of a flag, or in an argument without one.
func (im *importer) moveFromArg(flag, value string, at configfile.Path) string {
	name := strings.TrimLeft(flag, "-")
	if shortEnv.MatchString(flag) { // -eNAME=VALUE
		return im.moveValue(flag[2:], value, at)
	}
	if m := assignment.FindStringSubmatch(value); m != nil && (flag == "-e" || name == "env" || config.IsSecretName(m[1]) && !strings.ContainsAny(m[2], " \t\n")) {
		return m[1] + "=" + im.moveValue(m[1], m[2], at)
	}
	if m := headerText.FindStringSubmatch(value); m != nil && (flag == "-H" || strings.EqualFold(name, "header")) {
		return m[1] + m[2] + im.moveValue(m[1], m[3], at)
	}
	if flag != "" && config.IsSecretName(name) && value != "true" && value != "false" {
		return im.moveValue(name, value, at)
	}
	return im.moveFromText(name, value, at)
}

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)

// moveFromText replaces tokens and the passwords of URLs.
func (im *importer) moveFromText(key, value string, at configfile.Path) string {
	value = im.withoutDefaults(value, func(name, fallback string) bool {
		return config.IsSecretName(name) || config.HasToken(fallback) || strings.Contains(fallback, "@")
	})
	value = anyURL.ReplaceAllStringFunc(value, func(u string) string { return im.moveFromAnyURL(u, at) })
	return im.moveTokens(key, value, at)
}

// moveTokens replaces the words that begin like the tokens of well-known services.
func (im *importer) moveTokens(key, value string, at configfile.Path) string {
	var b strings.Builder
	end := 0
	replace := func(text string) string {
		return config.ReplaceTokens(text, func(token string) string { return im.move(key, token, at) })
	}
	for _, m := range marks.FindAllStringIndex(value, -1) { // the numbers of placeholders are no words
		b.WriteString(replace(value[end:m[0]]))
		b.WriteString(value[m[0]:m[1]])
		end = m[1]
	}
	b.WriteString(replace(value[end:]))
	return b.String()
}

// urlParts are scheme, authority, path, query and fragment. A password may contain / ? #
// unescaped: what cannot be a port belongs to the password, which ends at the last @.
var urlParts = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://([^/?#@\[]*:[0-9]*[^/?#@0-9\x00].*@[^/?#@]*|[^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$`)

// moveFromURL replaces the secrets in the url of a server. User and password become a header,
// as the gateway demands.
func (im *importer) moveFromURL(value string, at configfile.Path) string {
	m := urlParts.FindStringSubmatch(value)
	if m == nil {
		return im.moveFromText("url", value, at)
	}
	authority := m[2]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user := authority[:i]
		authority = authority[i+1:]
		if !slices.ContainsFunc(im.server.headers, func(h entry) bool { return strings.EqualFold(h.name, "Authorization") }) {
			moved := im.move("Authorization", basicCredentials(user), at)
			im.noteLast(moved, "user:password of the url, in Base64")
			im.server.headers = append(im.server.headers, entry{"Authorization", "Basic " + moved})
			im.warn(at, "user and password are sent as the header Authorization here")
		} else {
			im.warn(at, "user and password are left out, since there is a header Authorization")
		}
	}
	if m[5] != "" {
		im.warn(at, "what follows # is left out: it is never sent")
	}
	return im.moveFromText("url key", m[1]+"://"+authority+m[3]+im.moveFromQuery(m[4], at), at)
}

// basicCredentials encodes user and password of a URL as RFC 7617 demands. A user part with
// references or bad escapes stays as it is.
func basicCredentials(user string) string {
	decoded, err := url.PathUnescape(user)
	if err != nil || unmarked(user) != user {
		return user
	}
	return base64.StdEncoding.EncodeToString([]byte(decoded))
}

// moveFromAnyURL replaces the password and the secret parameters of a URL in a text, such as that of a
// database.
func (im *importer) moveFromAnyURL(value string, at configfile.Path) string {
	m := urlParts.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	authority := m[2]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if user, password, has := strings.Cut(authority[:i], ":"); has && unmarked(password) != "" {
			password = im.move("url password", password, at)
			im.noteLast(password, "as it stands in a URL: percent-encoded")
			authority = user + ":" + password + authority[i:]
		}
	}
	return m[1] + "://" + authority + m[3] + im.moveFromQuery(m[4], at) + m[5]
}

// moveFromQuery replaces the values of parameters with secret names.
func (im *importer) moveFromQuery(text string, at configfile.Path) string {
	if text == "" {
		return ""
	}
	params := strings.Split(text[1:], "&")
	for i, p := range params {
		if name, value, has := strings.Cut(p, "="); has && config.IsSecretName(name) {
			params[i] = name + "=" + im.moveValue(name, value, at)
		}
	}
	return "?" + strings.Join(params, "&")
}

var (
	// assigned matches NAME=value in a command line for a shell.
	assigned = regexp.MustCompile(`(?:^|[\s;&|"'])([A-Za-z_][A-Za-z0-9_]*)=(?:"[^"$\x00\s]{4,}"|'[^'$\x00\s]{4,}'|[^\s"'$;&|\x00]{4,})`)
	// unguessable matches what services put into paths in the place of a key: a UUID, or a long word without separators.
	unguessable = regexp.MustCompile(`^(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|.*[A-Za-z0-9]{20,}.*)$`)
)

// noteSecrets warns of values that are copied and may be secrets by their form: their owner has to look.
func (im *importer) noteSecrets(value string, at configfile.Path) {
	const stays = "and stays in the file: look through it before you share it"
	for _, m := range assigned.FindAllStringSubmatch(value, -1) {
		if config.IsSecretName(m[1]) {
			im.warn(at, "%s may be a secret, %s", m[1], stays)
			return
		}
	}
	for _, u := range anyURL.FindAllString(value, -1) {
		m := urlParts.FindStringSubmatch(u)
		if m == nil {
			continue
		}
		for part := range strings.SplitSeq(unmarked(m[3]), "/") {
			if unguessable.MatchString(part) && strings.ContainsAny(part, "0123456789") && strings.ContainsFunc(part, unicode.IsLetter) {
				im.warn(at, "a part of the path may be a secret, %s", stays)
				return
			}
		}
	}
}
