package auth

import (
	"net/http"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// failure is a reason for which authentication fails. All failures are defined below, so
// that the label of the metric is bounded.
type failure struct {
	reason  string // the label of the metric, also in the log
	status  int
	code    string // an error of RFC 6750, section 3.1; "" if the client sent no credentials
	message string // for the client
	claim   string // the claim that is missing or malformed, "" if that is not the reason
	signed  bool   // the token has a valid signature, so only a sender with a token of the issuer can cause it
}

const invalidToken = "invalid_token"

func unauthorized(reason, message string) *failure {
	return &failure{reason: reason, status: http.StatusUnauthorized, code: invalidToken, message: message}
}

// signed returns a copy of f for a token whose signature is valid.
func signed(f *failure) *failure {
	g := *f
	g.signed = true
	return &g
}

var (
	errMissing        = &failure{reason: "missing", status: http.StatusUnauthorized, message: "authentication is required"}
	errScheme         = &failure{reason: "scheme", status: http.StatusUnauthorized, message: "the header Authorization has no scheme Bearer: write it before the key or token, as in \"Bearer KEY\""}
	errMalformed      = &failure{reason: "malformed", status: http.StatusBadRequest, code: "invalid_request", message: "the header with the credentials is malformed or sent twice"}
	errTwoCredentials = &failure{reason: "two_proofs", status: http.StatusBadRequest, code: "invalid_request", message: "the request has two different credentials; send one"}
	errTooLarge       = unauthorized("too_large", "the credentials are too large")

	errKeyUnknown = unauthorized("unknown_key", "the API key is unknown")
	errKeyExpired = unauthorized("expired_key", "the API key has expired")

	errNotAccessToken = unauthorized("token_form", "the token is not a signed JWT access token")
	errAlgorithm      = unauthorized("algorithm", "the token is signed with an algorithm that is not accepted")
	errIssuer         = unauthorized("issuer", "the issuer of the token is not accepted")
	errSignature      = unauthorized("signature", "the signature of the token is invalid")
	errOtherToken     = signed(errNotAccessToken)
	errAudience       = signed(unauthorized("audience", "the token was not issued for this server"))
	errExpired        = signed(unauthorized("expired", "the token has expired"))
	errNotYetValid    = signed(unauthorized("not_yet_valid", "the token is not valid yet"))
	errClaims         = signed(unauthorized("claims", "a claim of the token is missing or malformed"))
	errBinding        = signed(unauthorized("bound", "the token is bound to a key that the request does not have"))
	errScope          = &failure{reason: "scope", status: http.StatusForbidden, code: "insufficient_scope", message: "the token lacks a scope that this server requires of every token", signed: true}
	errUnavailable    = &failure{reason: "unavailable", status: http.StatusServiceUnavailable, message: "the keys of the issuer cannot be fetched, so the token cannot be verified; try again later"}

	errAttempts = &failure{reason: "attempts", status: http.StatusTooManyRequests, message: "too many logins have failed, so this one was not tried"}

	errCertificate = unauthorized("certificate", "the client certificate does not belong to a known principal")

	failures = []*failure{
		errMissing, errScheme, errMalformed, errTwoCredentials, errTooLarge, errKeyUnknown, errKeyExpired, errNotAccessToken, errAlgorithm, errIssuer,
		errSignature, errAudience, errExpired, errNotYetValid, errClaims, errBinding, errScope, errUnavailable, errAttempts, errCertificate,
	}
)

// malformed is errClaims with the name of the claim.
func malformed(claim string) *failure {
	f := *errClaims
	f.claim = claim
	return &f
}

// isMissing is [Denied.Missing]. It is false for nil.
func (f *failure) isMissing() bool { return f == errMissing || f == errScheme }

// Error returns the reason.
func (f *failure) Error() string { return "authentication failed: " + f.reason }

// Denied is the error of a request that is not authenticated. Except for Log it contains
// nothing that the client has sent.
type Denied struct {
	fail      *failure
	challenge string
	category  string
	log       zap.Field
}

// Error returns the reason, for logs.
func (e *Denied) Error() string { return e.fail.Error() }

// Public returns the message for the client.
func (e *Denied) Public() string { return e.fail.message }

// Reason returns the label of the failure in metrics.
func (e *Denied) Reason() string { return e.fail.reason }

// Missing reports whether the request has no credentials of a kind that is accepted.
func (e *Denied) Missing() bool { return e.fail.isMissing() }

// Status returns the HTTP status: 401, 403 if a token lacks scopes, 400 for malformed or
// contradictory headers, 503 while tokens cannot be verified.
func (e *Denied) Status() int { return e.fail.status }

// Challenge returns the WWW-Authenticate header, "" for none.
func (e *Denied) Challenge() string { return e.challenge }

// Log returns the level, the category and the fields of the log line about the refusal, these in one
// field: what was refused, beside what was expected. It contains no credentials and no part of
// them. The field reads the request when a line is written, which must be before the request
// ends. Categories separate the refusals of callers with and without valid credentials, so a flood
// of one does not hide the other. Each API key has its own category.
func (e *Denied) Log() (level zapcore.Level, category string, fields zap.Field) {
	if e.fail == errUnavailable {
		return zapcore.WarnLevel, e.category, e.log
	}
	return zapcore.InfoLevel, e.category, e.log
}

// challenge formats a WWW-Authenticate header from parameter names and values. It leaves
// out parameters without a value.
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

// quoted replaces characters that a quoted-string must not contain (RFC 9110, section
// 5.6.4).
func quoted(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, s)
}
