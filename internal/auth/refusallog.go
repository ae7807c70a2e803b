package auth

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Bounds of what the log and explain repeat of a token.
const (
	maxLogged   = 256 // bytes of one value
	maxLoggedID = 64  // bytes of a key ID in a sentence
)

// logCategory returns the category of the log line about a refused request. There are at most two
// categories for each reason, and one for each API key of the configuration.
func (a *Authenticator) logCategory(r *http.Request, fail *failure) string {
	switch {
	case fail == errKeyExpired:
		if creds, bad := a.credentials(r.Header); bad == nil {
			if k := a.findKey(creds.text); k != nil { // nil if the keys have changed meanwhile
				return fail.reason + " " + k.id
			}
		}
	case fail.signed:
		return fail.reason + " signed"
	}
	return fail.reason
}

// logField returns the fields of the log line about a refused request. They are made when
// the line is written, so a refusal without a line costs nothing.
func (a *Authenticator) logField(r *http.Request, fail *failure) zap.Field {
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(e zapcore.ObjectEncoder) error {
		e.AddString("reason", fail.reason)
		e.AddString("why", a.why(r, fail))
		if fail == errCertificate {
			return logCertificate(e, r.TLS)
		}
		creds, bad := a.credentials(r.Header)
		if bad != nil || creds.text == "" {
			return nil
		}
		if fail == errKeyExpired {
			if k := a.findKey(creds.text); k != nil { // nil if the keys have changed meanwhile
				e.AddString("key", k.id)
				e.AddString("expired", logTime(k.principal.Expires))
			}
			return nil
		}
		if !creds.keyOnly && fail != errKeyUnknown {
			return a.logToken(e, r, creds.text, fail)
		}
		return nil
	}))
}

// why says for operators what is wrong.
func (a *Authenticator) why(r *http.Request, fail *failure) string {
	if fail != errSignature {
		return fail.message
	}
	creds, _ := a.credentials(r.Header)
	header, claims, _ := unverified(creds.text)
	if iss := a.issuers[claims.Get("iss").Str()]; iss != nil {
		return cmp.Or(iss.keys.lacks(header.Get("kid")), fail.message)
	}
	return fail.message
}

// logCertificate adds the names of a refused certificate.
func logCertificate(e zapcore.ObjectEncoder, tls *tlsState) error {
	if tls == nil || len(tls.VerifiedChains) == 0 {
		return nil
	}
	leaf := tls.VerifiedChains[0][0]
	e.AddString("certificate", plaintext.Clip(leaf.Subject.String(), maxLogged))
	e.AddString("serial", leaf.SerialNumber.Text(16))
	e.AddString("not_before", logTime(leaf.NotBefore))
	e.AddString("not_after", logTime(leaf.NotAfter))
	return addList(e, "names", slices.Concat(leaf.DNSNames, uris(leaf), leaf.EmailAddresses))
}

// logToken adds the claims of a refused token, and what was expected of the claim that is
// wrong. The claims are those that the client sent: signature_verified says whether they are
// the issuer's.
func (a *Authenticator) logToken(e zapcore.ObjectEncoder, r *http.Request, text string, fail *failure) error {
	header, claims, ok := unverified(text)
	if !ok {
		return nil
	}
	iss := a.issuers[claims.Get("iss").Str()]
	subject := "sub"
	if iss != nil {
		subject = iss.Claims.Subject
	}
	for _, f := range []struct{ name, value string }{
		{"iss", shown(claims.Get("iss"))}, {"sub", shown(call.ClaimAt(claims, subject))}, {"exp", shownTime(claims.Get("exp"))},
	} {
		if f.value != "" {
			e.AddString(f.name, f.value)
		}
	}
	if err := addList(e, "aud", shownList(claims.Get("aud"), whole)); err != nil {
		return err
	}
	e.AddBool("signature_verified", fail.signed)
	switch {
	case fail == errIssuer:
		return addList(e, "expected_iss", a.resource.issuers)
	case iss == nil:
		return nil
	}
	switch fail {
	case errAlgorithm:
		e.AddString("alg", shown(header.Get("alg")))
		return addList(e, "expected_alg", iss.Algorithms)
	case errSignature:
		e.AddString("kid", shown(header.Get("kid")))
	case errUnavailable:
		if err := iss.keys.unreachable(); err != nil {
			e.AddString("error", plaintext.Clip(err.Error(), 2*maxLogged))
		}
	case errAudience:
		return addList(e, "expected_aud", a.expectedAudiences(iss, r))
	case errNotYetValid:
		for _, name := range []string{"nbf", "iat"} {
			if at := claims.Get(name); at.Exists() {
				e.AddString(name, shownTime(at))
			}
		}
	case errScope:
		if err := addList(e, "scope", shownList(call.ClaimAt(claims, iss.Claims.Scopes), strings.Fields)); err != nil {
			return err
		}
		return addList(e, "expected_scope", iss.Required)
	default:
		if fail.claim != "" {
			e.AddString("claim", fail.claim)
		}
	}
	return nil
}

// unverified returns the header and the claims of a token as the client sent them.
func unverified(text string) (header, claims wire.Value, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return header, claims, false
	}
	header, ok = object(parts[0])
	if ok {
		claims, ok = object(parts[1])
	}
	return header, claims, ok
}

// shown returns a claim for people: a text as it is, anything else as JSON, both clipped.
func shown(v wire.Value) string {
	if text, ok := v.Text(); ok {
		return plaintext.Clip(text, maxLogged)
	}
	return plaintext.Clip(string(v.Raw()), maxLogged)
}

// shownList returns the elements of a list for people, and a value that is no list as its
// only element.
func shownList(v wire.Value, split func(string) []string) []string {
	list, ok := stringList(v, split)
	if !ok {
		return []string{shown(v)}
	}
	return list
}

// shownTime returns a NumericDate for people, and anything else as shown does.
func shownTime(v wire.Value) string {
	if at, ok := numericDate(v); ok {
		return logTime(at)
	}
	return shown(v)
}

func logTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// addList adds a list of texts, of which it clips the ends.
func addList(e zapcore.ObjectEncoder, name string, list []string) error {
	if len(list) > 0 {
		zap.Strings(name, plaintext.ClipList(list)).AddTo(e)
	}
	return nil
}
