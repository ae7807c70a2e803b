package auth

import (
	"crypto/tls"
	"net/http"
	"strings"
)

// maxCredentials bounds an API key or a token, in bytes. Real tokens with hundreds of
// groups have 8 KiB, and many servers refuse larger headers.
const maxCredentials = 16 << 10

// tlsState is the state of the TLS connection, nil without TLS.
type tlsState = tls.ConnectionState

// presented holds the credentials in the headers of a request.
type presented struct {
	text        string // "" for none
	keyOnly     bool   // sent as X-API-Key, so it is not a token
	otherScheme bool   // Authorization has no scheme Bearer
}

const apiKeyHeader = "X-Api-Key"

// credentials returns the credentials in the headers. It refuses headers that occur
// twice, since a proxy may have checked the other one. It does not read the URL and the
// body (2025-11-25 and 2026-07-28, basic/authorization, "Token Requirements").
func (a *Authenticator) credentials(h http.Header) (presented, *failure) {
	auth, key := h["Authorization"], h[apiKeyHeader]
	if len(auth) > 1 || len(key) > 1 {
		return presented{}, errMalformed
	}
	var p presented
	keys := len(a.keys.Load().all)
	if len(auth) == 1 && keys+len(a.issuers) > 0 {
		text, fail := bearer(auth[0])
		if fail != nil {
			return presented{}, fail
		}
		p.text, p.otherScheme = text, text == ""
	}
	if len(key) == 1 && keys > 0 {
		text := strings.TrimSpace(key[0])
		switch {
		case text == "":
			return presented{}, errMalformed
		case p.text != "" && p.text != text:
			return presented{}, errTwoCredentials
		}
		p.text, p.keyOnly = text, true
	}
	if len(p.text) > maxCredentials {
		return presented{}, errTooLarge
	}
	return p, nil
}

// bearer returns the credentials of the Bearer scheme (RFC 6750, section 2.1), "" for
// another scheme.
func bearer(header string) (string, *failure) {
	scheme, rest, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		if strings.ContainsAny(scheme, ",;=\t") || scheme == "" {
			return "", errMalformed
		}
		return "", nil
	}
	rest = strings.Trim(rest, " ")
	if rest == "" || strings.ContainsAny(rest, " \t,") {
		return "", errMalformed
	}
	return rest, nil
}
