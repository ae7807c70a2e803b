package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

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
