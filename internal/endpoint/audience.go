package endpoint

import "strings"

// Scope says at which endpoints a token with some audience is accepted.
type Scope int

// The scopes of an audience.
const (
	Nowhere    Scope = iota // the audience is another server
	Everywhere              // the audience is the gateway as a whole
	OneProfile              // the audience is the endpoint of one profile
)

// ProfileOfURL returns the profile whose endpoint has this path below the URL of the
// gateway, whether there is such a profile or not: "" for /mcp and /sse.
func ProfileOfURL(path string) (profile string, ok bool) {
	if path == Path || path == PathSSE {
		return "", true
	}
	name, below := strings.CutPrefix(path, Path+"/")
	if !below || name == "" || strings.Contains(name, "/") {
		return "", false
	}
	return IDOf(name), true
}

// ScopeOf returns where a token with an audience is accepted. base is the URL at which
// clients reach the gateway, without a slash at its end; it and the audience have their
// scheme and host in lower case. A profile's host stands for that of the base.
func (s *Set) ScopeOf(audience, base string) (scope Scope, profile string) {
	scheme, rest, isURL := strings.Cut(audience, "://")
	if !isURL || scheme != "https" && scheme != "http" {
		return Nowhere, ""
	}
	host, path := splitPath(rest)
	_, baseRest, _ := strings.Cut(base, "://")
	baseHost, basePath := splitPath(baseRest)
	ofHost := ""
	if len(s.hosts) > 0 {
		ofHost = s.nameOf(host)
	}
	isBase := strings.HasPrefix(audience, base) && host == baseHost
	below, ok := strings.CutPrefix(path, basePath)
	if !ok || ofHost == "" && !isBase {
		return Nowhere, ""
	}
	if below == "" || below == "/" {
		if ofHost != "" {
			return OneProfile, IDOf(ofHost)
		}
		return Everywhere, ""
	}
	if profile, ok = ProfileOfURL(below); !ok {
		return Nowhere, ""
	}
	if profile == "" {
		profile = IDOf(ofHost)
	}
	return OneProfile, profile
}

// splitPath splits a URL without its scheme into the host and the path.
func splitPath(rest string) (host, path string) {
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		return rest, ""
	}
	return rest[:at], rest[at:]
}
