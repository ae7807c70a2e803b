package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	secretNames = regexp.MustCompile(`^(?i:keys?|pass|passwd|pwd|pat|pin|otp|jwt|dsn|auth|authorization|creds?|cookies?|bearer|private|session|signature|webhook|salt|seed|code)$`)
	secretParts = regexp.MustCompile(`(?i:api-?key|token|secret|password|passwd|passphrase|credential)`)
	camelHump   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	// aboutSecrets ends names of settings that are not secret themselves, such as
	// KEY_FILE and token-url; switches begin names of settings without a value.
	aboutSecrets = regexp.MustCompile(`^(?i:file|path|dir|directory|folder|url|uri|host|endpoint|type|method|mode|ttl|timeout|count|limit)$`)
	switches     = regexp.MustCompile(`^(?i:no|disable|enable|use|skip|allow|max|min)$`)
)

// IsSecretName reports whether the name of a variable, header, flag or parameter says that its
// value is secret.
func IsSecretName(name string) bool {
	words := strings.FieldsFunc(camelHump.ReplaceAllString(name, "${1}_$2"), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if len(words) > 1 && (aboutSecrets.MatchString(words[len(words)-1]) || switches.MatchString(words[0])) {
		return false
	}
	return slices.ContainsFunc(words, func(w string) bool { return secretNames.MatchString(w) || secretParts.MatchString(w) })
}

var authScheme = regexp.MustCompile(`^(?i:bearer|basic|token|bot|apikey|api-key|key|digest|dpop|negotiate)[ \t]+`)

// AuthScheme returns the word of an authentication scheme with which a value begins, with the space after it; "" for none.
func AuthScheme(value string) string { return authScheme.FindString(value) }

var (
	tokenWord = regexp.MustCompile(`[A-Za-z0-9_+.~%-]+=*`)
	// tokenPrefix matches the tokens of well-known services by their prefixes.
	tokenPrefix = regexp.MustCompile(`^((sk|pk|rk|whsec|ntn|hf|npm|tvly|fc|lin_api|figd|pypi|dop_v1|glpat|glsa|shpat|sntrys|xai|gsk|r8|gh[opusr]|github_pat|vck|sbp|phc|phx|re|bb_live)[-_][A-Za-z0-9_-]{12,}|ATATT.{12,}|xox[a-z]-.{6,}|xapp-.{6,}|A[KS]IA[0-9A-Z]{8,}|AIza[0-9A-Za-z_-]{16,}|ya29\..{8,}|eyJ[A-Za-z0-9_-]{8,}.*|SG\.[\w.-]{8,}|BSA[A-Za-z0-9_-]{12,})`)
)

// ReplaceTokens replaces the tokens of well-known services in a text.
func ReplaceTokens(text string, replacement func(token string) string) string {
	return tokenWord.ReplaceAllStringFunc(text, func(word string) string {
		if !tokenPrefix.MatchString(word) {
			return word
		}
		return replacement(word)
	})
}

// HasToken reports whether a text contains the token of a well-known service.
func HasToken(text string) bool {
	return slices.ContainsFunc(tokenWord.FindAllString(text, -1), tokenPrefix.MatchString)
}

// minRandom is the length in bytes from which a part of a path may be random, as in the URLs with a secret that some
// services give to each user.
const minRandom = 16

// isRandom reports whether a part of a path is probably made by a machine and not a name: digits, and small and capital
// letters, alternate in it.
func isRandom(part string) bool {
	digits, changes, last := false, 0, byte(0)
	for i := range len(part) {
		kind := byte(0) // of separators
		switch b := part[i]; {
		case b >= '0' && b <= '9':
			kind, digits = '0', true
		case b >= 'a' && b <= 'z':
			kind = 'a'
		case b >= 'A' && b <= 'Z':
			kind = 'A'
		}
		if kind != 0 && last != 0 && kind != last {
			changes++
		}
		last = kind
	}
	return len(part) >= minRandom && digits && changes >= 4
}

// isSecretPart reports whether a part of a path is probably secret.
func isSecretPart(part string) bool { return HasToken(part) || isRandom(part) }
