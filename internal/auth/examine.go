package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Examination is the result of the checks of credentials by an [Authenticator], for the
// operator. It contains no credentials.
type Examination struct {
	// Principal is the principal of the credentials if they were valid, nil for none.
	Principal *call.Principal
	// Profiles are the names of the only profiles that they may use; nil means all.
	Profiles []string
	// Reason is the label of the refusal in metrics and in the log, "" if the credentials
	// are accepted as far as they could be checked. Message is its text; without a refusal
	// it says when a running gateway refuses them all the same, "" if that is not known.
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

// Examine judges an API key or a token as Authenticate would at the endpoint of a profile, and
// goes on after a failure. It fetches the keys of the issuer if it does not have them.
func (a *Authenticator) Examine(ctx context.Context, text, profile string) *Examination {
	x := &Examination{}
	if len(text) > maxCredentials {
		x.refuse(errTooLarge)
		return x
	}
	if key := a.findKey(text); key != nil || !a.mayBeToken(text) {
		_, fail := a.keySender(text)
		x.refuse(fail)
		if key != nil {
			x.Principal, x.Profiles = key.principal, key.sender.Profiles
			x.add("key", key.id, "", true)
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
	iss.examine(ctx, x, text, header, claims, profile)
	return x
}

// examine examines a token of this issuer.
func (i *issuer) examine(ctx context.Context, x *Examination, text string, header, claims wire.Value, profile string) {
	alg := header.Get("alg").Str()
	if known := slices.Contains(i.Algorithms, alg); !known {
		x.add("alg", shown(header.Get("alg")), joined(i.Algorithms), false)
		x.refuse(errAlgorithm)
	} else {
		x.add("alg", alg, joined(i.Algorithms), true)
		i.examineSignature(ctx, x, text, header)
	}
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1]) // unverified has decoded it
	v, fail := i.judge(payload, text)
	at := endpoint.Endpoint{Path: endpoint.PathOf(profile), Profile: profile}
	if fail == nil && !v.audience.covers(at, i.endpoints(), i.base) {
		fail = errAudience
	}
	x.refuse(fail)

	x.add("kind of token", "", "an access token", !isNotAccessToken(claims))
	aud, ok := stringList(claims.Get("aud"), whole)
	x.add("aud", joined(shownList(claims.Get("aud"), whole)), "one of "+joined(i.expected(i.base+at.Path)), ok && i.covers(aud, at))
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
	if i.ProfilesClaim != "" {
		named := call.ClaimAt(claims, i.ProfilesClaim)
		list, ok := stringList(named, whole)
		x.add(i.ProfilesClaim, joined(shownList(named, whole)), "the names of profiles", ok && len(list) > 0)
	}
	sender, malformed := i.sender(claims, payload, expires)
	if malformed != nil {
		return
	}
	if x.Principal, x.Profiles = sender.principal, sender.Profiles; len(i.Required) == 0 {
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
		if err == nil {
			x.add("signature", value, "by a key of the issuer", true)
			return
		}
		lacks := i.keys.lacks(header.Get("kid"))
		x.add("signature", value, cmp.Or(lacks, "by a key of the issuer"), false)
		if x.Reason == "" {
			x.refuse(errSignature)
			x.Message = cmp.Or(lacks, x.Message)
		}
		return
	}
	why := "the keys of the issuer cannot be fetched"
	if cause := i.keys.unreachable(); cause != nil {
		why = fmt.Sprintf("%s: %s", why, plaintext.Clip(cause.Error(), 2*maxLogged))
	}
	x.Checks = append(x.Checks, Check{"signature", value, why, CheckUnchecked})
	if x.Reason == "" {
		x.Message = "a running gateway that has not fetched the keys before answers HTTP 503 until it can"
	}
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
func joined(list []string) string { return strings.Join(plaintext.ClipList(list), ", ") }

// Configured returns the sender of the API key or of the certificates that give a subject,
// by the method of authentication: groups, scopes, profiles and, for a key, the expiry. Of
// several keys it is the one that expires last. It returns nil if the configuration has none.
func (a *Authenticator) Configured(method, subject string) *Sender {
	switch method {
	case MethodAPIKey:
		var last *apiKey
		for _, k := range a.keys.Load().all {
			if k.principal.Subject == subject && (last == nil || k.outlives(last)) {
				last = k
			}
		}
		if last != nil {
			return last.sender
		}
	case MethodCertificate:
		rules := *a.certs.Load()
		for i := range rules {
			if r := &rules[i]; r.mayGive(subject) {
				p := &call.Principal{Subject: subject, Groups: r.groups, Scopes: r.scopes, AuthMethod: MethodCertificate}
				return &Sender{principal: p, Profiles: r.profiles}
			}
		}
	}
	return nil
}
