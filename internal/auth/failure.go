package auth

import (
	"net/http"
	"strings"
)

// failure is a way in which proof is not good enough. There are only the ones
// below, so that the label of the metric is bounded.
type failure struct {
	reason  string // label of the metric, and what the log says
	status  int
	code    string // the error of RFC 6750, section 3.1; "" where the client sent no proof
	message string // for the client
}

const invalidToken = "invalid_token"

func unauthorized(reason, message string) *failure {
	return &failure{reason, http.StatusUnauthorized, invalidToken, message}
}

var (
	errMissing        = &failure{"missing", http.StatusUnauthorized, "", "authentication is required"}
	errMalformed      = &failure{"malformed", http.StatusBadRequest, "invalid_request", "the header with the proof is malformed or sent twice"}
	errTwoCredentials = &failure{"two_proofs", http.StatusBadRequest, "invalid_request", "the request carries two different proofs of who sends it; send one"}
	errTooLarge       = unauthorized("too_large", "the proof is too large")

	errKeyUnknown = unauthorized("unknown_key", "the API key is not known")
	errKeyExpired = unauthorized("expired_key", "the API key has expired")

	errNotAccessToken = unauthorized("token_form", "the token is no signed JWT access token")
	errAlgorithm      = unauthorized("algorithm", "the token is signed with an algorithm that is not accepted")
	errIssuer         = unauthorized("issuer", "the token is of an issuer that is not accepted")
	errSignature      = unauthorized("signature", "the signature of the token does not hold")
	errAudience       = unauthorized("audience", "the token was not issued for this server")
	errExpired        = unauthorized("expired", "the token has expired")
	errNotYetValid    = unauthorized("not_yet_valid", "the token is not valid yet")
	errClaims         = unauthorized("claims", "the token lacks a claim, or has one of another form than is due")
	errBinding        = unauthorized("bound", "the token is bound to a key that the request does not prove")
	errScope          = &failure{"scope", http.StatusForbidden, "insufficient_scope", "the token lacks a scope that this server asks of every token"}
	errUnavailable    = &failure{"unavailable", http.StatusServiceUnavailable, "", "the issuer's keys cannot be had at the moment, so the token cannot be verified"}

	errCertificate = unauthorized("certificate", "the client certificate belongs to nobody who is known here")

	failures = []*failure{
		errMissing, errMalformed, errTwoCredentials, errTooLarge, errKeyUnknown, errKeyExpired, errNotAccessToken, errAlgorithm, errIssuer,
		errSignature, errAudience, errExpired, errNotYetValid, errClaims, errBinding, errScope, errUnavailable, errCertificate,
	}
)

// Error returns the reason.
func (f *failure) Error() string { return "proof refused: " + f.reason }

// Denied is why a request is not served. Nothing that was sent is in it.
type Denied struct {
	fail      *failure
	challenge string
}

// Error returns the reason.
func (e *Denied) Error() string { return e.fail.Error() }

// Public returns what the client is told.
func (e *Denied) Public() string { return e.fail.message }

// Reason returns one of a few words that logs and metrics use.
func (e *Denied) Reason() string { return e.fail.reason }

// Status returns the HTTP status: 401, 403 where a token lacks scopes, 400 for a
// header that cannot be read and for two proofs, 503 where proof cannot be verified at the moment.
func (e *Denied) Status() int { return e.fail.status }

// Challenge returns the value of WWW-Authenticate, "" for none.
func (e *Denied) Challenge() string { return e.challenge }

// challenge makes a value of WWW-Authenticate out of names and values. A
// parameter without a value is left out.
func challenge(scheme string, params ...string) string {
	var b strings.Builder
	b.WriteString(scheme)
	sep := " "
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] == "" {
			continue
		}
		b.WriteString(sep + params[i] + `="` + quoted(params[i+1]) + `"`)
		sep = ", "
	}
	return b.String()
}

// quoted makes text fit for a quoted-string (RFC 9110, section 5.6.4).
func quoted(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, s)
}
