package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Examination is what an [Authenticator] finds in credentials, for the operator. It contains
// no credentials.
type Examination struct {
	// Principal is who such credentials would name if they were valid, nil for nobody.
	Principal *call.Principal
	// Reason is the label of the refusal in metrics and in the log, "" if the credentials
	// are accepted as far as they could be checked. Message is its text for clients.
	Reason, Message string
	Checks          []Check
}

// Check is one part of an examination.
type Check struct {
	Name            string // of the claim or the property
	Value, Expected string // "" for none
	Result          CheckResult
}

// CheckResult is the result of a Check.
type CheckResult string

// The results of checks.
const (
	CheckOK        CheckResult = "ok"
	CheckWrong     CheckResult = "wrong"
	CheckUnchecked CheckResult = "unchecked"
)

func (x *Examination) add(name, value, expected string, ok bool) {
	result := CheckWrong
	if ok {
		result = CheckOK
	}
	x.Checks = append(x.Checks, Check{name, value, expected, result})
}

// refuse records a failure, unless an earlier one decides.
func (x *Examination) refuse(f *failure) {
	if f != nil && x.Reason == "" {
		x.Reason, x.Message = f.reason, f.message
	}
}

// Examine judges an API key or a token as Authenticate would, and goes on after a failure. It
// fetches the keys of the issuer if it does not have them.
func (a *Authenticator) Examine(ctx context.Context, text string) *Examination {
	x := &Examination{}
	if len(text) > maxCredentials {
		x.refuse(errTooLarge)
		return x
	}
	if key := a.findKey(text); key != nil || !a.mayBeToken(text) {
		_, fail := a.apiKeyPrincipal(text)
		x.refuse(fail)
		if key != nil {
			x.Principal = key.principal
			x.add("key", key.principal.Subject, "", true)
			if expires := key.principal.Expires; !expires.IsZero() {
				x.add("expires", logTime(expires), "after "+logTime(a.now()), fail == nil)
			}
		}
		return x
	}
	header, claims, ok := unverified(text)
	_, fail := parseToken(text)
	x.refuse(fail)
	if !ok {
		x.add("form", "", "a signed JWT: three parts in base64url, joined by dots", false)
		return x
	}
	typ := header.Get("typ")
	x.add("typ", shown(typ), "JWT or at+jwt", !typ.Exists() || isAccessTokenType(typ.Str()))
	iss := a.issuers[claims.Get("iss").Str()]
	x.add("iss", shown(claims.Get("iss")), joined(a.resource.issuers), iss != nil)
	if iss == nil {
		x.refuse(errIssuer)
		return x
	}
	iss.examine(ctx, x, text, header, claims)
	return x
}

// examine examines a token of this issuer.
func (i *issuer) examine(ctx context.Context, x *Examination, text string, header, claims wire.Value) {
	alg := header.Get("alg").Str()
	if known := slices.Contains(i.Algorithms, alg); !known {
		x.add("alg", shown(header.Get("alg")), joined(i.Algorithms), false)
		x.refuse(errAlgorithm)
	} else {
		x.add("alg", alg, joined(i.Algorithms), true)
		i.examineSignature(ctx, x, text, header)
	}
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1]) // unverified has decoded it
	_, fail := i.judge(payload, text)
	x.refuse(fail)

	x.add("kind of token", "", "an access token", !isNotAccessToken(claims))
	aud, ok := stringList(claims.Get("aud"), whole)
	x.add("aud", joined(shownList(claims.Get("aud"), whole)), "one of "+joined(i.Audiences), ok && slices.ContainsFunc(aud, i.acceptsAudience))
	expires := i.examineTimes(x, claims)
	if cnf := claims.Get("cnf"); cnf.Exists() {
		check := Check{"cnf", shown(cnf), "the certificate of the connection, which is not known here", CheckUnchecked}
		if _, fail := bindingOf(claims); fail != nil {
			check.Expected, check.Result = "no binding but x5t#S256", CheckWrong
		}
		x.Checks = append(x.Checks, check)
	}
	subject, ok := call.ClaimAt(claims, i.Claims.Subject).Text()
	x.add(i.Claims.Subject, plaintext.Clip(subject, maxLogged), "a text", ok && isPrincipalText(subject))
	for _, path := range []string{i.Claims.Groups, i.Claims.Scopes} {
		v := call.ClaimAt(claims, path)
		if _, ok := stringList(v, whole); !ok {
			x.add(path, shown(v), "a text or a list of texts", false)
		}
	}
	var malformed *failure
	if x.Principal, malformed = i.principal(claims, payload, expires); malformed != nil || len(i.Required) == 0 {
		return
	}
	x.Principal.Token = call.NewToken(text)
	lacks := slices.ContainsFunc(i.Required, func(s string) bool { return !slices.Contains(x.Principal.Scopes, s) })
	x.add(i.Claims.Scopes, joined(x.Principal.Scopes), "all of "+joined(i.Required), !lacks)
}

func (i *issuer) examineSignature(ctx context.Context, x *Examination, text string, header wire.Value) {
	value := ""
	if kid := header.Get("kid"); kid.Exists() {
		value = "kid " + shown(kid)
	}
	_, err := i.keys.verify(ctx, text, i.signatures)
	if !errors.Is(err, errUnreachable) {
		x.add("signature", value, "by a key of the issuer", err == nil)
		if err != nil {
			x.refuse(errSignature)
		}
		return
	}
	why := "the keys of the issuer cannot be fetched"
	if cause := i.keys.unreachable(); cause != nil {
		why = fmt.Sprintf("%s: %s", why, plaintext.Clip(cause.Error(), 2*maxLogged))
	}
	x.Checks = append(x.Checks, Check{"signature", value, why, CheckUnchecked})
}

// examineTimes returns the expiry of a token, with the tolerated skew.
func (i *issuer) examineTimes(x *Examination, claims wire.Value) time.Time {
	now := i.now()
	exp, ok := numericDate(claims.Get("exp"))
	x.add("exp", shownTime(claims.Get("exp")), "after "+logTime(now.Add(-i.Skew)), ok && now.Before(exp.Add(i.Skew)))
	for _, name := range []string{"nbf", "iat"} {
		if v := claims.Get(name); v.Exists() {
			from, ok := numericDate(v)
			x.add(name, shownTime(v), "not after "+logTime(now.Add(i.Skew)), ok && !now.Add(i.Skew).Before(from))
		}
	}
	return exp.Add(i.Skew)
}

// joined joins texts of a token for people.
func joined(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxLoggedList {
			b.WriteString("…")
			break
		}
		b.WriteString(plaintext.Clip(s, maxLogged))
	}
	return b.String()
}

// Configured returns the principal of the API key or of the certificates that give a subject,
// by the method of authentication: its groups, scopes and, for a key, its expiry. It returns
// nil if the configuration has none.
func (a *Authenticator) Configured(method, subject string) *call.Principal {
	switch method {
	case MethodAPIKey:
		for _, k := range a.keys.Load().all {
			if k.principal.Subject == subject {
				return k.principal
			}
		}
	case MethodCertificate:
		for i := range a.certs {
			if r := &a.certs[i]; r.mayGive(subject) {
				return &call.Principal{Subject: subject, Groups: r.groups, Scopes: r.scopes, AuthMethod: MethodCertificate}
			}
		}
	}
	return nil
}
