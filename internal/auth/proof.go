package auth

import (
	"crypto/tls"
	"net/http"
	"strings"

	"go.uber.org/zap/zapcore"
)

// maxProof bounds a key or token. Real tokens with hundreds of groups have 8 KiB,
// and many servers refuse headers over that.
const maxCredentials = 16 << 10

// tlsState is what the handshake of a connection came to, nil without TLS.
type tlsState = tls.ConnectionState

// proof is what the headers of a request carry.
type presented struct {
	text    string // "" for nothing
	keyOnly bool   // it came as an API key, so it is no token
}

const apiKeyHeader = "X-Api-Key"

// given returns the proof in the headers. One that is sent twice is refused: what
// stands before us may have looked at the other one. Neither the URL nor the body
// is looked at (2025-11-25 and 2026-07-28, basic/authorization, "Token
// Requirements").
func (a *Authenticator) credentials(h http.Header) (presented, *failure) {
	auth, key := h["Authorization"], h[apiKeyHeader]
	if len(auth) > 1 || len(key) > 1 {
		return presented{}, errMalformed
	}
	var p presented
	keys := len(*a.keys.Load())
	if len(auth) == 1 && keys+len(a.issuers) > 0 {
		text, fail := bearer(auth[0])
		if fail != nil {
			return presented{}, fail
		}
		p.text = text
	}
	if len(key) == 1 && keys > 0 {
		text := strings.TrimSpace(key[0])
		switch {
		case text == "":
			return presented{}, errMalformed
		case p.text != "" && p.text != text:
			return presented{}, errTwoCredentials
		}
		p = presented{text, true}
	}
	if len(p.text) > maxCredentials {
		return presented{}, errTooLarge
	}
	return p, nil
}

// bearer returns the credentials of the scheme Bearer (RFC 6750, section 2.1), ""
// for another scheme.
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

// levelOf is how grave a failure is to whoever runs the gateway. Clients begin
// without proof, to learn what is asked for.
func (a *Authenticator) levelOf(f *failure) zapcore.Level {
	switch f {
	case errMissing, errExpired:
		return zapcore.DebugLevel
	case errUnavailable:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}
