package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What follows errs on one side: a value that is not known to be harmless is
// taken for a secret under env and headers. Elsewhere what looks like one is.

// guarded is a value of env or headers without its secrets.
func (im *importer) guarded(key, value string, at path) string {
	value = im.withoutDefaults(key, value)
	literal := unmarked(value)
	if lead := authScheme.FindString(value); lead != "" && strings.TrimSpace(value[len(lead):]) != "" {
		rest := value[len(lead):]
		if harmless(key, unmarked(rest)) {
			return value
		}
		moved := im.move(key, rest, at)
		im.noteLast(moved, "what follows the word "+strings.TrimSpace(lead))
		return lead + moved
	}
	if harmless(key, literal) {
		return value
	}
	moved := im.move(key, value, at)
	if literal != value {
		im.noteLast(moved, "the whole value, which refers to other variables in the host's file")
	}
	return moved
}

// noteLast says what the value of a slot is.
func (im *importer) noteLast(mark, note string) {
	im.expand(mark, func(s *slot) string { s.note = note; return "" })
}

// withoutDefault is the note of a reference that had a default.
const withoutDefault = "its default in the host's file is left out, since it may be secret"

// withoutDefaults takes the defaults out of references that may be secret.
func (im *importer) withoutDefaults(key, value string) string {
	return im.expand(value, func(s *slot) string {
		if name, fallback, has := strings.Cut(s.ref, ":-"); has && name != "DOLLAR" && !harmless(key, fallback) {
			s.ref, s.note = name, withoutDefault
		}
		return im.mark(s)
	})
}

var authScheme = regexp.MustCompile(`^(?i:bearer|basic|token|bot|apikey|api-key|key|digest)[ \t]+`)

// urlParts are scheme, authority, path, query and fragment. A password may have / ? #
// in it as it is: what cannot be a port is none, so that it goes up to the last @.
var urlParts = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://([^/?#@\[]*:[0-9]*[^/?#@0-9\x00].*@[^/?#@]*|[^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$`)

// guardedURL is the url of a server without its secrets. User and password go
// into a header, where the gateway wants them.
func (im *importer) guardedURL(value string, at path) string {
	m := urlParts.FindStringSubmatch(value)
	if m == nil {
		return im.guardedText("url", value, at)
	}
	authority := m[2]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user := authority[:i]
		authority = authority[i+1:]
		if !slices.ContainsFunc(im.server.headers, func(h hostPair) bool { return strings.EqualFold(h.name, "Authorization") }) {
			moved := im.move("Authorization", user, at)
			im.noteLast(moved, "user:password of the url, in Base64")
			im.server.headers = append(im.server.headers, hostPair{"Authorization", "Basic " + moved})
			im.warn(at, "user and password are sent as the header Authorization here")
		} else {
			im.warn(at, "user and password are left out, since there is a header Authorization")
		}
	}
	if m[5] != "" {
		im.warn(at, "what follows # is left out: it is never sent")
	}
	return m[1] + "://" + im.guardedWords("host", authority, at) + im.guardedPath(m[3], at) + im.guardedQuery(m[4], at)
}

// guardedPath is the path of a URL without the parts that look like keys.
func (im *importer) guardedPath(text string, at path) string {
	parts := strings.Split(text, "/")
	for i, p := range parts {
		if literal := unmarked(p); hasToken(literal) {
			parts[i] = im.move("url key", p, at)
		}
	}
	return strings.Join(parts, "/")
}

// guardedQuery is the query of a URL without values that may be secret.
func (im *importer) guardedQuery(text string, at path) string {
	if text == "" {
		return ""
	}
	params := strings.Split(text[1:], "&")
	for i, p := range params {
		name, value, has := strings.Cut(p, "=")
		switch {
		case has:
			value = im.withoutDefaults(name, value)
			if !harmless(name, unmarked(value)) && (secretKey(name) || !shortText.MatchString(unmarked(value))) {
				value = im.move(name, value, at)
			}
			params[i] = name + "=" + value
		case hasToken(unmarked(p)):
			params[i] = im.move("url key", p, at)
		}
	}
	return "?" + strings.Join(params, "&")
}

// shortText is a value of a query that is too short and plain for a key.
var shortText = regexp.MustCompile(`^[a-z]{1,12}([,_-][a-z]{1,12})*$`)

var (
	flagWord   = regexp.MustCompile(`^--?[A-Za-z][\w.-]*$`)
	flagValue  = regexp.MustCompile(`(?s)^(--?[A-Za-z][\w.-]*)=(.*)$`)
	assignment = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)
	shortEnv   = regexp.MustCompile(`^-e[A-Z_][A-Z0-9_]*$`)
	headerText = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9-]*)(:\s*)(.*)$`)
)

// guardedArgs are arguments without their secrets.
func (im *importer) guardedArgs(args []string, at path) []string {
	flag := "" // that the next argument is the value of
	for i, a := range args {
		here := at.item(i)
		before := flag
		flag = ""
		m := flagValue.FindStringSubmatch(a)
		switch {
		case m != nil:
			args[i] = m[1] + "=" + im.guardedFlag(m[1], m[2], here)
		case flagWord.MatchString(unmarked(a)) && (before == "" || strings.HasPrefix(a, "--")):
			flag = a
		default:
			args[i] = im.guardedFlag(before, a, here)
		}
	}
	return args
}

// guardedFlag is the value of a flag, or an argument of its own with flag "".
func (im *importer) guardedFlag(flag, value string, at path) string {
	word := strings.TrimLeft(flag, "-")
	if shortEnv.MatchString(flag) { // -eNAME=VALUE
		return im.guarded(flag[2:], value, at)
	}
	if m := assignment.FindStringSubmatch(value); m != nil && (secretKey(m[1]) && !strings.ContainsAny(m[2], " \t\n") || flag == "-e" || word == "env") {
		return m[1] + "=" + im.guarded(m[1], m[2], at)
	}
	if m := headerText.FindStringSubmatch(value); m != nil && (flag == "-H" || strings.EqualFold(word, "header")) {
		return m[1] + m[2] + im.guarded(m[1], m[3], at)
	}
	if flag != "" && secretKey(word) {
		return im.guarded(word, value, at)
	}
	return im.guardedText(word, value, at)
}

var (
	anyURL    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	shellVar  = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)=("[^"]*"|'[^']*'|[^\s"';&|]+)`)
	shellFlag = regexp.MustCompile(`(--?[A-Za-z][\w-]*)(=|\s+)("[^"]*"|'[^']*'|[^\s"';&|-][^\s"';&|]*)`)
	headerIn  = regexp.MustCompile(`(?i)((?:authorization|[\w-]*(?:api-?key|token|secret)[\w-]*)\s*:\s*)([^"'\n]+)`)
)

// guardedText is any other text without what looks like a secret.
func (im *importer) guardedText(key, value string, at path) string {
	value = im.expand(value, func(s *slot) string {
		if name, fallback, has := strings.Cut(s.ref, ":-"); has && (hasToken(fallback) || strings.Contains(fallback, "://") && !harmlessURL(fallback)) {
			s.ref, s.note = name, withoutDefault
		}
		return im.mark(s)
	})
	if secretJSON(key, unmarked(value)) {
		return im.move(key, value, at)
	}
	value = anyURL.ReplaceAllStringFunc(value, func(u string) string { return im.guardedAnyURL(u, at) })
	if strings.ContainsAny(value, " \t\n;") { // a line for a shell, or what connects to a database
		inside := func(re *regexp.Regexp, name, literal int) {
			value = replaceAll(re, value, func(m []string) string {
				if !secretKey(strings.Trim(m[name], "-: ")) {
					return m[0]
				}
				bare := strings.Trim(m[literal], `"'`)
				if harmless(m[name], unmarked(bare)) {
					return m[0]
				}
				return strings.TrimSuffix(m[0], m[literal]) + strings.Replace(m[literal], bare, im.move(m[name], bare, at), 1)
			})
		}
		inside(shellVar, 1, 2)
		inside(shellFlag, 1, 3)
		inside(headerIn, 1, 2)
	}
	return im.guardedWords(key, value, at)
}

// guardedWords moves the words that look like tokens.
func (im *importer) guardedWords(key, value string, at path) string {
	if strings.HasPrefix(value, "sha256:") || strings.Contains(value, "@sha256:") {
		return value // the digest of an image is no secret
	}
	text := uuid.ReplaceAllStringFunc(value, func(w string) string { return im.move(key, w, at) })
	var b strings.Builder
	end := 0
	for _, m := range marks.FindAllStringIndex(text, -1) { // the numbers of slots are no words
		b.WriteString(im.tokens(key, text[end:m[0]], at))
		b.WriteString(text[m[0]:m[1]])
		end = m[1]
	}
	b.WriteString(im.tokens(key, text[end:], at))
	return b.String()
}

func (im *importer) tokens(key, text string, at path) string {
	return tokenEnd.ReplaceAllStringFunc(text, func(w string) string {
		switch {
		case !tokenLike(w):
			return w
		case strings.Contains(w, "/") && !tokenStart.MatchString(w):
			return im.guardedPath(w, at)
		case strings.Contains(w, "=") && !strings.HasSuffix(w, "="):
			name, value, _ := strings.Cut(w, "=")
			return name + "=" + im.move(name, value, at)
		}
		return im.move(key, w, at)
	})
}

// guardedAnyURL is a URL in a text, such as that of a database, without its
// secrets.
func (im *importer) guardedAnyURL(value string, at path) string {
	m := urlParts.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	authority := m[2]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, has := strings.Cut(authority[:i], ":")
		switch {
		case has && unmarked(password) != "":
			password = im.move("url password", password, at)
			im.noteLast(password, "as it stands in a URL: percent-encoded")
			authority = user + ":" + password + authority[i:]
		case !has && hasToken(unmarked(user)):
			authority = im.move("url user", user, at) + authority[i:]
		}
	}
	return m[1] + "://" + authority + im.guardedPath(m[3], at) + im.guardedQuery(m[4], at) + m[5]
}

// secretJSON tells whether a text is JSON with a value that may be secret.
func secretJSON(key, text string) bool {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") && !strings.HasPrefix(trimmed, `"`) {
		return false
	}
	var value any
	if json.Unmarshal([]byte(trimmed), &value) != nil {
		return false
	}
	return secretValue(key, value, 0)
}

func secretValue(key string, value any, depth int) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, inside := range v {
			if secretValue(name, inside, depth+1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inside any) bool { return secretValue(key, inside, depth+1) })
	case string:
		return secretJSON(key, v) || !harmless(key, v)
	case float64:
		return secretKey(key) && !harmless(key, fmt.Sprint(v))
	}
	return false
}

// replaceAll is ReplaceAllStringFunc with the groups of each match.
func replaceAll(re *regexp.Regexp, text string, put func(groups []string) string) string {
	return re.ReplaceAllStringFunc(text, func(m string) string { return put(re.FindStringSubmatch(m)) })
}
