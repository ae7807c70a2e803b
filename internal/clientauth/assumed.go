package clientauth

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/ruleset"
)

// Assume returns p as authentication under a configuration would have made it: with the groups and
// scopes of the API key or of the certificates that give its subject, unless p has groups or scopes
// of its own, and with the scopes that its scopes imply. If p does not say otherwise, it
// authenticates in the way in which the configuration knows its subject, else with a token if that
// is possible, and it has the issuer if there is only one. The principal is in the named profile,
// or if that is "", in the one that it gets at /mcp. remarks are sentences about what does not fit
// the configuration. refused says why the principal does not get the profile, see [InProfile].
func Assume(cfg *config.Config, p *call.Principal, profile string) (out *call.Principal, remarks []string, refused string, err error) {
	out, pinned, remarks, err := assumed(cfg, p)
	if err != nil {
		return nil, nil, "", err
	}
	out, remark, refused := InProfile(cfg, out, pinned, profile)
	if remark != "" {
		remarks = append(remarks, remark)
	}
	return out, remarks, refused, nil
}

// InProfile returns a principal in the named profile, or if that is "", in the one that it gets
// at /mcp. The default profile is at /mcp too, so a principal to whom pins or groups give another
// profile there is in that one. pinned are the names of the only profiles that it may use, nil for all. remark is a
// sentence about a profile that it gets by its groups or pins, or "". refused is a sentence about a profile that it does
// not get, or "": the gateway answers its requests as if there were no such path.
func InProfile(cfg *config.Config, p *call.Principal, pinned []string, profile string) (out *call.Principal, remark, refused string) {
	endpoints := ruleset.Endpoints(cfg)
	path := endpoint.PathOf(endpoint.IDOf(profile))
	at, _ := endpoints.Find(&url.URL{Path: path}, "")
	chosen, ok := endpoints.Choose(at, p.Groups, pinned)
	switch id := endpoint.IDOf(profile); {
	case profile != "" && !ok:
		return p.In(id), "", fmt.Sprintf("%s is pinned to %s: for it there is no profile %s", p.Subject, strings.Join(pinned, ", "), profile)
	case profile != "" && chosen != id: // only the path of the default profile leaves a choice
		why := "by its groups"
		if pinned != nil {
			why = "since it is pinned to " + strings.Join(pinned, ", ")
		}
		return p.In(chosen), fmt.Sprintf("at %s/%s %s gets the profile %s, %s: this is that profile", path, profile, p.Subject, endpoint.NameOf(chosen), why), ""
	case profile != "":
		return p.In(id), "", ""
	case !ok:
		return p, "", fmt.Sprintf("%s is pinned to %s, and there is no such profile: it gets nothing", p.Subject, strings.Join(pinned, ", "))
	case chosen != "" && pinned != nil:
		return p.In(chosen), fmt.Sprintf("this is the profile %s, to which %s is pinned", chosen, p.Subject), ""
	case chosen != "":
		return p.In(chosen), fmt.Sprintf("this is the profile %s, which %s gets at %s by its groups; --profile names another one", chosen, p.Subject, path), ""
	}
	return p, "", ""
}

// assumed returns p as authentication would have made it, and the names of the only profiles
// that it may use, nil for all.
func assumed(cfg *config.Config, p *call.Principal) (out *call.Principal, pinned, remarks []string, err error) {
	copied := *p
	out = &copied
	out.Scopes = auth.Imply(impliedScopes(cfg), p.Scopes)
	a := &cfg.Auth
	if out.AuthMethod == "" && p.Issuer != "" && a.Has(config.AuthJWT) {
		out.AuthMethod = auth.MethodToken
	}
	methods := []config.AuthMode{config.AuthMode(out.AuthMethod)}
	if out.AuthMethod == "" {
		methods = a.Mode
	}
	switch {
	case a.Has(config.AuthNone), out.IsLocal():
		out.AuthMethod = string(methods[0])
		return out, nil, nil, nil
	case !a.Has(methods[0]):
		return out, nil, []string{fmt.Sprintf("no client authenticates with %s: auth.mode is %s", methods[0], joinModes(a.Mode))}, nil
	}
	sender, what, lacking, err := configured(cfg, methods, p.Subject)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case sender == nil && slices.Contains(methods, config.AuthJWT):
		out.AuthMethod = auth.MethodToken
		if out.Issuer == "" && len(a.JWT) == 1 {
			out.Issuer = a.JWT[0].Issuer
		}
		pinned, remark := claimed(cfg, out)
		switch other := keyID(a, methods, p.Subject); {
		case remark != "":
			remarks = []string{remark}
		case len(p.Groups)+len(p.Scopes)+len(p.Claims) > 0: // they describe a token
		case other != "":
			remarks = []string{other}
		case lacking != "":
			remarks = []string{fmt.Sprintf("the configuration has %s for %q: the answer is for a token without groups and scopes", lacking, p.Subject)}
		}
		return out, pinned, remarks, nil
	case sender == nil:
		out.AuthMethod = string(methods[len(methods)-1])
		if other := keyID(a, methods, p.Subject); other != "" {
			return out, nil, []string{other}, nil
		}
		return out, nil, []string{fmt.Sprintf("the configuration has %s for %q: the answer is for the groups and scopes of --as alone", lacking, p.Subject)}, nil
	}
	known, own := sender.Principal(), len(p.Groups)+len(p.Scopes) > 0
	out.AuthMethod = known.AuthMethod
	switch {
	case !own:
		out.Groups, out.Scopes = known.Groups, known.Scopes
	case !sameTexts(known.Groups, out.Groups) || !sameTexts(known.Scopes, out.Scopes):
		remarks = append(remarks, fmt.Sprintf("the %s %q has the groups %q and the scopes %q: the answer is for those of --as instead", what, p.Subject, known.Groups, known.Scopes))
	}
	if remark := otherKeys(a, known, own); remark != "" {
		remarks = append(remarks, remark)
	}
	out.Expires = known.Expires
	return out, sender.Profiles, remarks, nil
}

// claimed gives a principal with a token the groups and scopes of its claims, unless it has some of its own. It
// returns the names of the only profiles that it may use, nil for all. remark says which claims are not read, or "".
func claimed(cfg *config.Config, p *call.Principal) (pinned []string, remark string) {
	if len(p.Claims) == 0 {
		return nil, ""
	}
	at := slices.IndexFunc(cfg.Auth.JWT, func(j config.JWT) bool { return j.Issuer == p.Issuer })
	switch {
	case at < 0 && p.Issuer == "" && len(p.Groups)+len(p.Scopes) == 0: // there are several: assumed takes the only one
		return nil, fmt.Sprintf("auth.jwt has %d issuers: name the one whose token has these claims, as issuer=%s", len(cfg.Auth.JWT), cfg.Auth.JWT[0].Issuer)
	case at < 0:
		return nil, ""
	}
	issuer := issuerOf(cfg.Auth.JWT[at])
	r, wrong := issuer.Rights(p.Claims)
	if wrong != "" {
		return nil, fmt.Sprintf("the claim %s is missing or malformed: the gateway refuses such a token", wrong)
	}
	if len(p.Groups) == 0 {
		p.Groups = r.Groups
	}
	if len(p.Scopes) == 0 {
		p.Scopes = auth.Imply(impliedScopes(cfg), r.Scopes)
	}
	return r.Profiles, ""
}

// keyID returns a sentence about the API key that has the text as its id and gives another subject, "" if there is none.
func keyID(a *config.Auth, methods []config.AuthMode, text string) string {
	if !slices.Contains(methods, config.AuthKey) {
		return ""
	}
	for _, k := range a.APIKeys {
		if k.ID == text { // then its subject is another one, else the configuration would have a key for it
			return fmt.Sprintf("%q is the id of an API key whose subject is %s: write %[2]s instead", text, k.Subject)
		}
	}
	return ""
}

// otherKeys returns a sentence about the valid API keys that have the same subject as the one of known but give
// something else, "" if there is none. own says that the groups and scopes are not those of the key.
func otherKeys(a *config.Auth, known *call.Principal, own bool) string {
	if known.KeyID == "" {
		return ""
	}
	chosen := a.APIKeys[slices.IndexFunc(a.APIKeys, func(k config.APIKey) bool { return k.ID == known.KeyID })]
	n := 1
	var differ []string
	for _, k := range a.APIKeys {
		if at := k.ExpiresAt(); k.ID == chosen.ID || k.EffectiveSubject() != known.Subject || !at.IsZero() && !time.Now().Before(at) {
			continue
		}
		n++
		for _, what := range chosen.Differs(k) {
			if !slices.Contains(differ, what) && (what == "profiles" || !own) {
				differ = append(differ, what)
			}
		}
	}
	if len(differ) == 0 {
		return ""
	}
	slices.Sort(differ)
	return fmt.Sprintf("%d API keys have the subject %s and differ in %s: this answer is for the key %s; gateway explain%s --token @FILE judges one key",
		n, known.Subject, strings.Join(differ, " and "), chosen.ID, advice.ConfigFlag())
}

// configured returns what a configuration has for a subject, and whether it is an API key or a
// certificate. sender is nil if it has nothing by any of the methods; lacking says what it lacks then,
// "" if there are tokens alone.
func configured(cfg *config.Config, methods []config.AuthMode, subject string) (sender *auth.Sender, what, lacking string, err error) {
	if len(methods) == 1 && methods[0] == config.AuthJWT {
		return nil, "", "", nil
	}
	authenticator, err := New(cfg, nil, nil)
	if err != nil {
		return nil, "", "", err
	}
	var none []string
	for _, m := range methods {
		if m == config.AuthJWT {
			continue
		}
		what := map[config.AuthMode]string{config.AuthKey: "API key", config.AuthMTLS: "certificate"}[m]
		if sender := authenticator.Configured(string(m), subject); sender != nil {
			return sender, what, "", nil
		}
		none = append(none, "no "+what)
	}
	return nil, "", strings.Join(none, " and "), nil
}

// sameTexts reports whether two lists have the same texts, in any order.
func sameTexts(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func joinModes(modes []config.AuthMode) string {
	texts := make([]string, len(modes))
	for i, m := range modes {
		texts[i] = string(m)
	}
	return strings.Join(texts, ", ")
}
