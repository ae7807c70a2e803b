package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
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

// withoutDefaults takes the defaults out of references that may be secret.
func (im *importer) withoutDefaults(key, value string) string {
	return im.expand(value, func(s *slot) string {
		if name, fallback, has := strings.Cut(s.ref, ":-"); has && name != "DOLLAR" && !harmless(key, fallback) {
			s.ref = name
			s.note = "its default in the host's file is left out, since it may be secret"
		}
		return im.mark(s)
	})
}

var authScheme = regexp.MustCompile(`^(?i:bearer|basic|token|bot|apikey|api-key|key|digest)[ \t]+`)

var (
	plainWord  = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|none|null|auto|default|enabled|disabled|all|debug|info|warn|warning|error|trace|verbose|silent|production|development|staging|test|testing|dev|prod|local|localhost|json|text|plain|stdio|http|https|sse|streamable-http|utf-?8|c\.utf-8|en_us\.utf-8|application/json|text/plain|text/event-stream|\*/\*)$`)
	shortNum   = regexp.MustCompile(`^-?[0-9]{1,7}(\.[0-9]{1,3})?(s|ms|m|h|mb|kb|gb)?$`)
	versionNum = regexp.MustCompile(`^v?[0-9]{1,4}(\.[0-9]{1,4}){1,3}$|^20[0-9]{2}-[0-9]{2}-[0-9]{2}$`)
	region     = regexp.MustCompile(`^[a-z]{2}(-[a-z]{4,9}){1,2}-?[0-9]?$`)
	domainName = regexp.MustCompile(`^([a-z0-9-]{1,24}\.)+[a-z]{2,12}(:[0-9]{1,5})?$`)
	pathValue  = regexp.MustCompile(`^(~?|\.\.?|[A-Za-z]:)[/\\][\w .@+/\\-]*$`)
	wordList   = regexp.MustCompile(`^[a-z_]{2,20}(, ?[a-z_]{2,20})+$`)
	punctuated = regexp.MustCompile(`^[\s:;,.@/_=&?|*+-]*$`)
)

// harmless tells whether a literal under a key is surely no secret.
func harmless(key, literal string) bool {
	if punctuated.MatchString(literal) || strings.EqualFold(literal, "true") || strings.EqualFold(literal, "false") {
		return true
	}
	if secretKey(key) {
		return false
	}
	switch {
	case plainWord.MatchString(literal), shortNum.MatchString(literal), versionNum.MatchString(literal), region.MatchString(literal):
		return true
	case pathList(literal), wordList.MatchString(literal), domainName.MatchString(literal) && aboutPlace(key):
		return !hasToken(literal)
	case strings.Contains(literal, "://"):
		return harmlessURL(literal)
	}
	_, err := netip.ParseAddrPort(literal)
	if err != nil {
		_, err = netip.ParseAddr(literal)
	}
	return err == nil || strings.HasPrefix(literal, "localhost:") && shortNum.MatchString(literal[len("localhost:"):])
}

// pathList tells whether a literal is a path, or several.
func pathList(literal string) bool {
	if pathValue.MatchString(literal) {
		return true
	}
	parts := strings.FieldsFunc(literal, func(r rune) bool { return r == ':' || r == ';' || r == ',' })
	return len(parts) > 1 && !slices.ContainsFunc(parts, func(p string) bool { return !pathValue.MatchString(p) })
}

// harmlessURL tells whether a URL has nothing but a host and a plain path.
func harmlessURL(literal string) bool {
	m := urlParts.FindStringSubmatch(literal)
	return m != nil && slices.Contains([]string{"http", "https", "ws", "wss", "file"}, strings.ToLower(m[1])) &&
		!strings.Contains(m[2], "@") && m[4] == "" && m[5] == "" && !hasToken(m[2]) && !hasToken(m[3]) &&
		!strings.ContainsFunc(literal, unicode.IsSpace)
}

// secretWords are parts of the names of what is secret; placeWords at the end of
// a name say that it is not the secret, but where one is, or what kind, and
// switchWords at its beginning that it has no value.
var (
	secretWords = strings.Fields(`KEY KEYS TOKEN TOKENS SECRET SECRETS PASS PASSWORD PASSWORDS PASSWD PWD PASSPHRASE AUTH AUTHORIZATION
		CREDENTIAL CREDENTIALS CREDS CRED PAT COOKIE COOKIES BEARER JWT DSN SIGNATURE SIG PRIVATE SESSION WEBHOOK CONNECTION CONN PIN OTP
		SALT SEED MNEMONIC LICENSE LICENCE APIKEY AUTHTOKEN ACCESSTOKEN CODE`)
	secretParts = []string{"APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PASSPHRASE"}
	placeWords  = strings.Fields("FILE PATH DIR DIRECTORY FOLDER ROOT URL URI HOST ENDPOINT TYPE METHOD MODE TTL TIMEOUT COUNT LIMIT")
	switchWords = []string{"NO", "DISABLE", "ENABLE", "USE", "SKIP", "ALLOW"}
	placeKeys   = strings.Fields("HOST DOMAIN SITE SERVER ENDPOINT URL URI BASE ADDRESS ADDR INSTANCE")
)

// secretKey tells whether the name of a variable, header, flag or parameter is
// one of something secret.
func secretKey(key string) bool {
	words := keyWords(key)
	if len(words) == 0 || len(words) > 1 && (slices.Contains(placeWords, words[len(words)-1]) || slices.Contains(switchWords, words[0])) {
		return false
	}
	for _, w := range words {
		if slices.Contains(secretWords, w) {
			return true
		}
		for _, part := range secretParts {
			if strings.Contains(w, part) {
				return true
			}
		}
	}
	return false
}

// aboutPlace tells whether a name is one of where something is.
func aboutPlace(key string) bool {
	return slices.ContainsFunc(keyWords(key), func(w string) bool { return slices.Contains(placeKeys, w) })
}

var camelHump = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func keyWords(key string) []string {
	return strings.FieldsFunc(strings.ToUpper(camelHump.ReplaceAllString(key, "${1}_$2")), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// tokenStart are what the tokens of well-known services begin with.
var tokenStart = regexp.MustCompile(`^((sk|pk|rk|whsec|sess|key|secret|ntn|hf|npm|tvly|fc|lin_api|figd|pypi|dop_v1|glpat|glsa|shpat|sntrys|ops|pat|xai|gsk|r8|ghp|gho|ghu|ghs|ghr|github_pat|ATATT|vck|sbp|rpa|phc|phx|re|bb_live)[-_][A-Za-z0-9_-]{6,}|xox[a-z]-.{6,}|xapp-.{6,}|AKIA[0-9A-Z]{8,}|ASIA[0-9A-Z]{8,}|AIza[0-9A-Za-z_-]{16,}|ya29\..{8,}|eyJ[A-Za-z0-9_-]{8,}.*|SG\.[\w.-]{8,}|BSA[A-Za-z0-9_-]{12,})`)

var (
	longHex  = regexp.MustCompile(`^[0-9a-fA-F]{24,}$`)
	uuid     = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)
	tokenEnd = regexp.MustCompile(`[A-Za-z0-9_+/=.~%-]+`)
	segments = regexp.MustCompile(`[A-Za-z0-9_+]+`)
)

// hasToken tells whether something in a text looks like a token.
func hasToken(text string) bool {
	return uuid.MatchString(text) || slices.ContainsFunc(tokenEnd.FindAllString(text, -1), tokenLike)
}

// tokenLike tells whether a word looks like a token: it begins as those of a
// well-known service, or a part of it is long and made by chance.
func tokenLike(word string) bool {
	if tokenStart.MatchString(word) || uuid.MatchString(word) {
		return true
	}
	return slices.ContainsFunc(segments.FindAllString(word, -1), random)
}

// random tells whether a run of letters and digits looks made by chance.
func random(s string) bool {
	if longHex.MatchString(s) {
		return true
	}
	var upper, lower, digits, changes int
	var last rune
	for _, r := range s {
		kind := 'a'
		switch {
		case unicode.IsUpper(r):
			upper++
			kind = 'A'
		case unicode.IsDigit(r):
			digits++
			kind = '0'
		case unicode.IsLower(r):
			lower++
		}
		if kind != last && last != 0 {
			changes++
		}
		last = kind
	}
	switch {
	case len(s) < 16:
		return false
	case digits > 0 && upper+lower > 0 && changes >= len(s)/5:
		return true
	default: // long, and no word of a language or of a program
		return len(s) >= 20 && upper > 1 && lower > 1 && changes >= len(s)/3
	}
}

// urlParts are scheme, authority, path, query and fragment.
var urlParts = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$`)

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
			s.ref = name
			s.note = "its default in the host's file is left out, since it may be secret"
		}
		return im.mark(s)
	})
	if secretJSON(key, unmarked(value)) {
		return im.move(key, value, at)
	}
	value = anyURL.ReplaceAllStringFunc(value, func(u string) string { return im.guardedAnyURL(u, at) })
	if strings.ContainsAny(value, " \t\n") { // a line for a shell
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
