package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// credentialKinds are the values of proof in the text of a principal.
var credentialKinds = []string{"none", "local", "api-key", "jwt", "mtls"}

// ParsePrincipal parses SUBJECT,group=G,scope=S,issuer=I,proof=P,claim.NAME=VALUE. The value of a claim is
// JSON, or else a string. Dots in NAME lead to members, see [setClaim].
func ParsePrincipal(text string) (*call.Principal, error) {
	subject, rest, _ := strings.Cut(text, ",")
	p := &call.Principal{Subject: subject}
	if subject == "" || strings.Contains(subject, "=") {
		return nil, errors.New("must begin with the subject, such as alice,group=dev")
	}
	for word := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "" && rest == "":
		case key == "group" && value != "":
			p.Groups = append(p.Groups, value)
		case key == "scope" && value != "":
			p.Scopes = append(p.Scopes, value)
		case key == "issuer" && value != "":
			p.Issuer = value
		case key == "proof":
			if !slices.Contains(credentialKinds, value) {
				return nil, fmt.Errorf("%q must be one of %s", value, strings.Join(credentialKinds, ", "))
			}
			p.AuthMethod = value
		case strings.HasPrefix(key, "claim.") && len(key) > len("claim.") && value != "":
			claim := wire.Raw(value)
			if wire.Check(claim, wire.Limits{}, wire.Strict) != nil {
				claim = wire.String(value)
			}
			if p.Claims == nil {
				p.Claims = wire.Raw(`{}`)
			}
			p.Claims = setClaim(p.Claims, strings.TrimPrefix(key, "claim."), claim)
		default:
			return nil, fmt.Errorf("%q must be group=G, scope=S, issuer=I, proof=P or claim.NAME=VALUE", word)
		}
	}
	return p, nil
}

// setClaim sets the claim with a path as the configuration reads it, see [call.ClaimAt]: the claim whose own name is
// the whole path, and the member to which the dots lead, so that a condition finds either. A URL has only its own name.
func setClaim(claims wire.Raw, path string, value wire.Raw) wire.Raw {
	if !strings.ContainsAny(path, ":/") {
		claims = setNested(claims, strings.Split(path, "."), value)
	}
	return wire.SetMember(claims, path, value)
}

// setNested sets the member of an object to which names lead. A claim on the way that is no object stays.
func setNested(obj wire.Raw, names []string, value wire.Raw) wire.Raw {
	if len(names) == 1 {
		return wire.SetMember(obj, names[0], value)
	}
	inner := wire.Raw(`{}`)
	if v := wire.ValueOf(obj).Get(names[0]); v.Exists() {
		inner = v.Raw()
	}
	return wire.SetMember(obj, names[0], setNested(inner, names[1:], value))
}

// Current returns the table that is in force in a profile, "" for the default one, nil if there is no such profile.
func (i *Inspector) Current(id string) *catalog.Table { return i.gateway.Current(id) }

// Profiles returns how the profiles are now, the default one first.
func (i *Inspector) Profiles() []Profile { return i.gateway.Profiles() }

// Decide returns what policy says about an item while its arguments are not known, in the view of a caller.
func Decide(v *catalog.View, e *catalog.Entry) policy.Decision {
	t, ok := v.Resolve(e.Kind, e.Public)
	if !ok {
		return v.RefusalOf(e.Kind, e.Public, t)
	}
	return t.Policy.Listed()
}
