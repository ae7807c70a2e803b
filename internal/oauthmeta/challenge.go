package oauthmeta

import (
	"net/http"
	"slices"
	"strings"
)

// Challenge is what the Bearer challenges of a response with status 401 or 403 say (RFC 6750,
// section 3; RFC 9728, section 5.1). Members are absent if no challenge has them.
type Challenge struct {
	Metadata string   // the URL of the metadata of the resource
	Error    string   // why the request was refused, such as InsufficientScope
	Scopes   []string // that the resource requires
}

// InsufficientScope is the error of a request whose token lacks scopes (RFC 6750, section 3.1).
const InsufficientScope = "insufficient_scope"

// maxChallenges bounds the size of the challenges of a response that are read.
const maxChallenges = 8 << 10

// ReadChallenge returns the Bearer challenges of a response as one. Challenges of other schemes
// and malformed parameters are ignored, and headers beyond a bound.
func ReadChallenge(h http.Header) Challenge {
	var c Challenge
	left := maxChallenges
	for _, header := range h["Www-Authenticate"] {
		if len(header) <= left {
			left -= len(header)
			c.read(header)
		}
	}
	return c
}

// read adds the challenges of one header. Commas separate challenges and also the parameters of
// a challenge (RFC 9110, section 11.6.1): an element begins a challenge if it begins with a
// word that no "=" follows.
func (c *Challenge) read(header string) {
	var current Challenge
	bearer := false
	for header != "" {
		var element string
		element, header = cutElement(header)
		if element == "" {
			continue
		}
		name, rest := cutWord(element)
		if !strings.HasPrefix(rest, "=") {
			c.add(current)
			current, bearer = Challenge{}, strings.EqualFold(name, "Bearer")
			name, rest = cutWord(rest)
		}
		value, ok := parameterValue(rest)
		if !ok || !bearer {
			continue
		}
		switch strings.ToLower(name) {
		case "resource_metadata":
			current.Metadata = value
		case "error":
			current.Error = value
		case "scope":
			current.Scopes = scopesOf(value)
		}
	}
	c.add(current)
}

// add adds another challenge. The error and the scopes are those of the same challenge: the
// first with an error, or else the first with scopes.
func (c *Challenge) add(other Challenge) {
	if c.Metadata == "" {
		c.Metadata = other.Metadata
	}
	if c.Error == "" && (other.Error != "" || len(c.Scopes) == 0) {
		c.Error, c.Scopes = other.Error, other.Scopes
	}
}

const whiteSpace = " \t"

// cutElement splits a list after its first element. Commas in quoted strings separate nothing.
func cutElement(list string) (element, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch {
		case list[i] == '"':
			quoted = !quoted
		case list[i] == '\\' && quoted:
			i++
		case list[i] == ',' && !quoted:
			return strings.Trim(list[:i], whiteSpace), list[i+1:]
		}
	}
	return strings.Trim(list, whiteSpace), ""
}

// cutWord splits s after its first word.
func cutWord(s string) (word, rest string) {
	i := strings.IndexAny(s, whiteSpace+"=")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], whiteSpace)
}

// parameterValue returns the value of a parameter from what follows its name. A value without
// quotes may have any characters: servers send URLs that way, although they are no tokens.
func parameterValue(s string) (string, bool) {
	s, ok := strings.CutPrefix(s, "=")
	s = strings.TrimLeft(s, whiteSpace)
	if !ok || !strings.HasPrefix(s, `"`) {
		return s, ok
	}
	var value strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return value.String(), i == len(s)-1
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		value.WriteByte(s[i])
	}
	return "", false
}

// scopesOf returns the scopes in the value of a parameter. It leaves out those with characters
// that a scope must not have (RFC 6749, section 3.3): scopes are shown on terminals.
func scopesOf(value string) []string {
	return slices.DeleteFunc(strings.Fields(value), func(scope string) bool {
		return strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
	})
}
