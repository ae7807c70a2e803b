package auth

import (
	"net/http"
	"slices"
	"strings"

	"mcpgateway/internal/endpoint"
)

// tokenAudience is the audience of a token, as far as it names this gateway.
type tokenAudience struct {
	everywhere bool     // the gateway as a whole
	profiles   []string // endpoints of profiles, by configured names
	urls       []string // URLs of the gateway, with origins in lower case
}

// isNowhere reports whether the token is for others alone.
func (a *tokenAudience) isNowhere() bool {
	return !a.everywhere && len(a.profiles) == 0 && len(a.urls) == 0
}

// covers reports whether the token is for an endpoint (RFC 8707, section 2). The hosts of
// profiles can change while a verified token is cached, so URLs are compared each time.
func (a *tokenAudience) covers(at endpoint.Endpoint, endpoints *endpoint.Set, base string) bool {
	if a.everywhere || slices.Contains(a.profiles, at.Profile) {
		return true
	}
	for _, u := range a.urls {
		switch scope, profile := endpoints.ScopeOf(u, base); {
		case scope == endpoint.Everywhere, scope == endpoint.OneProfile && profile == at.Profile:
			return true
		}
	}
	return false
}

// audienceOf returns what the claim aud names of this gateway. The case of the scheme and
// host of a URL does not matter (2025-11-25 and 2026-07-28, basic/authorization, "Canonical
// Server URI"). A configured audience that is the URL of an endpoint is for that endpoint,
// any other one for all.
func (i *issuer) audienceOf(aud []string) (out tokenAudience) {
	for _, text := range aud {
		text = lowerOrigin(text)
		switch {
		case slices.ContainsFunc(i.Audiences, func(own string) bool { return lowerOrigin(own) == text }):
			if profile, ok := i.endpointOf(text); ok {
				out.profiles = append(out.profiles, profile)
			} else {
				out.everywhere = true
			}
		case !i.OwnURLs:
		default:
			if scope, _ := i.endpoints().ScopeOf(text, i.base); scope != endpoint.Nowhere {
				out.urls = append(out.urls, text)
			}
		}
	}
	return out
}

// endpointOf returns the profile whose endpoint has a configured audience as its URL.
func (i *issuer) endpointOf(text string) (profile string, ok bool) {
	origin, path := splitOrigin(text)
	if !strings.HasPrefix(origin, "https://") && !strings.HasPrefix(origin, "http://") {
		return "", false
	}
	_, prefix := splitOrigin(i.base)
	return endpoint.ProfileOfURL(strings.TrimPrefix(path, prefix))
}

// covers reports whether a claim aud is for an endpoint.
func (i *issuer) covers(aud []string, at endpoint.Endpoint) bool {
	of := i.audienceOf(aud)
	return of.covers(at, i.endpoints(), i.base)
}

// expected returns what may be in the claim aud for the endpoint at a URL.
func (i *issuer) expected(url string) []string {
	if !i.OwnURLs {
		return i.Audiences
	}
	return append(slices.Clone(i.Audiences), i.base, url)
}

// expectedAudiences returns what may be in the claim aud of a token for a request.
func (a *Authenticator) expectedAudiences(i *issuer, r *http.Request) []string {
	endpoints, path := a.endpoints(), endpoint.Path
	if e, ok := endpoints.Find(r.URL, r.Host); ok {
		path = e.Path
	}
	return i.expected(endpoints.BaseURL(a.resource.publicURL, r) + path)
}
