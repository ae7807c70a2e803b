package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// callerFacts are the facts about callers that any rule reads. Other facts do not tell
// callers apart.
type callerFacts struct {
	subjects, groups, scopes, issuers map[string]uint32 // that rules name in Who, numbered
	uses                              use               // by conditions
	claims                            []string          // that conditions read by name, sorted
}

const (
	useOfCaller  = useSubject | useIssuer | useGroups | useScopes | useClaims | useProof | useOfRequest
	useOfRequest = useEra | useRevision
)

func facetsOf(rules []*rule) callerFacts {
	f := callerFacts{map[string]uint32{}, map[string]uint32{}, map[string]uint32{}, map[string]uint32{}, 0, nil}
	number := func(m map[string]uint32, names []string) {
		for _, n := range names {
			if _, ok := m[n]; !ok {
				m[n] = uint32(len(m))
			}
		}
	}
	for _, r := range rules {
		number(f.subjects, r.Who.Subjects)
		number(f.groups, r.Who.Groups)
		number(f.scopes, r.Who.Scopes)
		number(f.issuers, r.Who.Issuers)
		f.uses |= r.uses & useOfCaller
		if r.When != nil {
			f.claims = append(f.claims, r.When.claims...)
		}
	}
	slices.Sort(f.claims)
	f.claims = slices.Compact(f.claims)
	return f
}

// none reports whether all callers have the same rights.
func (f *callerFacts) none() bool {
	return len(f.subjects)+len(f.groups)+len(f.scopes)+len(f.issuers)+len(f.claims) == 0 && f.uses == 0
}

// Key returns a key. Callers with equal keys get the same decision about every item and
// request. It holds each fact about the caller that a rule reads, with its length, so that
// two facts cannot be confused.
func (p *Policy) Key(c Caller) string {
	if p.everyone != nil {
		return ""
	}
	if p.narrower != nil {
		own := p.ownKey(c)
		return string(binary.AppendUvarint(nil, uint64(len(own)))) + own + p.narrower.Key(c)
	}
	return p.ownKey(c)
}

// ownKey is the key without regard to a narrower policy.
func (p *Policy) ownKey(c Caller) string {
	f, who := &p.facts, c.Principal
	b := make([]byte, 0, 64)
	b = appendNumber(b, f.subjects, who.Subject)
	b = appendNumber(b, f.issuers, who.Issuer)
	b = appendNamed(b, f.groups, who.Groups)
	b = appendNamed(b, f.scopes, who.Scopes)
	for _, t := range []struct {
		if_   use
		texts []string
	}{
		{useSubject, []string{who.Subject}}, {useIssuer, []string{who.Issuer}}, {useProof, []string{who.AuthMethod}},
		{useGroups, who.Groups}, {useScopes, who.Scopes},
		{useEra | useRevision, []string{string(c.Revision)}},
	} {
		if f.uses&t.if_ == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(t.texts)))
		for _, s := range t.texts {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	switch {
	case f.uses&useClaims != 0:
		sum := sha256.Sum256(who.Claims)
		b = append(b, sum[:]...)
	case len(f.claims) > 0:
		b = appendClaims(b, who.Claims, f.claims)
	}
	return string(b)
}

// appendClaims appends a hash of the claims with these names. Other claims change with
// every token.
func appendClaims(b []byte, claims wire.Raw, names []string) []byte {
	h := sha256.New()
	var length [8]byte
	for _, name := range names {
		value := wire.ValueOf(claims).Get(name).Raw()
		binary.BigEndian.PutUint64(length[:], uint64(len(value))) // a missing claim has length 0, no value has
		h.Write(length[:])
		h.Write(value)
	}
	return h.Sum(b)
}

// appendNumber appends the number of a name, or that it has none.
func appendNumber(b []byte, numbers map[string]uint32, name string) []byte {
	if len(numbers) == 0 {
		return b
	}
	i, ok := numbers[name]
	if !ok {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(i)+1)
}

// appendNamed appends one bit for each numbered name: whether it is among names.
func appendNamed(b []byte, numbers map[string]uint32, names []string) []byte {
	if len(numbers) == 0 {
		return b
	}
	at := len(b)
	b = append(b, make([]byte, (len(numbers)+7)/8)...)
	for _, n := range names {
		if i, ok := numbers[n]; ok {
			b[at+int(i/8)] |= 1 << (i % 8)
		}
	}
	return b
}

// Rights are the rules that can apply to a caller. Callers with equal keys have the same
// rights.
type Rights struct {
	policy *Policy
	caller Caller
	rules  []callerRule

	// The policies of most items.
	byDefault *ItemPolicy
	refused   map[string]*ItemPolicy // by the reason, one of the constants Rule…

	narrower *Rights // also have to allow; nil for none
}

// Caller returns one of the callers with these rights.
func (r *Rights) Caller() Caller { return r.caller }

// callerRule is a rule whose Who selects the caller, or would with one more scope.
type callerRule struct {
	*rule
	when       *Condition // nil if it holds for all items and requests of the caller
	lacking    bool
	countsOnly bool // the rule only contributes its limit
}

// Rights returns the rights of a caller. It takes time in the number of rules: keep the
// rights by the key.
func (p *Policy) Rights(c Caller) *Rights {
	if p.everyone != nil {
		return p.everyone
	}
	return p.newRights(c)
}

func (p *Policy) newRights(c Caller) *Rights {
	c.profile = cmp.Or(p.profile, DefaultProfile)
	r := &Rights{
		policy: p, caller: c,
		byDefault: &ItemPolicy{listed: newDecision(p.fallback)},
		refused:   make(map[string]*ItemPolicy),
	}
	r.byDefault.listed.Rule = RuleDefault
	for _, rule := range []string{RuleUpstreamDeny, RuleUpstreamAllow, RuleProfileDeny, RuleProfileAllow, RuleURI} {
		r.refused[rule] = &ItemPolicy{listed: Decision{Rule: rule}}
	}
	if p.narrower != nil {
		r.narrower = p.narrower.Rights(c)
	}
	for _, rule := range p.rules {
		missing := rule.Who.missing(c.Principal)
		if missing != "" && (missing != "scopes" || !rule.Challenge || rule.Effect == Deny) {
			continue
		}
		h := callerRule{rule: rule, when: rule.When, lacking: missing != ""}
		switch rule.When.evalForCaller(&r.caller) {
		case no:
			continue
		case yes:
			h.when = nil
		case failed:
			if h.when = nil; rule.Effect == Allow {
				continue
			}
		}
		r.rules = append(r.rules, h)
	}
	return r
}

// Key returns a key of what the caller may do. Callers with equal keys get the same decision
// about every item and request, also if [Policy.Key] tells them apart: it is made of facts
// about the caller, and many callers may have the same rules. Key returns false if a decision
// may still depend on such a fact.
func (r *Rights) Key() (key string, ok bool) {
	key, ok = r.ownKey()
	if !ok || r.narrower == nil {
		return key, ok
	}
	narrower, ok := r.narrower.Key()
	return string(binary.AppendUvarint(nil, uint64(len(key)))) + key + narrower, ok
}

// ownKey is the key without regard to narrower rights.
func (r *Rights) ownKey() (key string, ok bool) {
	var b []byte
	rest := r.rules
	for i, rule := range r.policy.rules {
		if len(rest) == 0 {
			break
		}
		h := rest[0]
		if h.rule != rule {
			continue
		}
		rest = rest[1:]
		if h.when != nil && (h.uses&useOfCaller != 0 || len(h.when.claims) > 0) {
			return "", false
		}
		flags := byte(0)
		for bit, set := range []bool{h.when != nil, h.lacking, h.countsOnly} {
			if set {
				flags |= 1 << bit
			}
		}
		b = append(binary.AppendUvarint(b, uint64(i)), flags)
	}
	return string(b), true
}

// missing returns which list does not match the principal, "" if all match. It returns
// "scopes" only if nothing else is missing.
func (w *Who) missing(p *call.Principal) string {
	switch {
	case w.Subjects != nil && !slices.Contains(w.Subjects, p.Subject):
		return "subjects"
	case w.Issuers != nil && !slices.Contains(w.Issuers, p.Issuer):
		return "issuers"
	case w.Groups != nil && !intersect(w.Groups, p.Groups):
		return "groups"
	case w.Scopes != nil && !intersect(w.Scopes, p.Scopes):
		return "scopes"
	}
	return ""
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// MayAllow reports whether the caller may be allowed items of the upstream whose public
// names begin with one of the leads, whichever items there are.
func (r *Rights) MayAllow(upstream string, leads [call.Kinds][]string) bool {
	for kind := range call.Kind(call.Kinds) {
		if len(leads[kind]) > 0 && r.reachesKind(kind, upstream, leads[kind]) {
			return true
		}
	}
	return false
}

// MayRefuse reports whether the caller may be denied an item of a kind of the upstream,
// whichever items there are.
//
// leads are the beginnings of all public names that such items may have, nil if unknown.
func (r *Rights) MayRefuse(kind call.Kind, upstream string, leads []string) bool {
	return r.mayRefuse(kind, upstream, leads) || r.narrower != nil && r.narrower.MayRefuse(kind, upstream, leads)
}

// mayRefuse is MayRefuse without regard to narrower rights.
func (r *Rights) mayRefuse(kind call.Kind, upstream string, leads []string) bool {
	if r.policy.HasLists(upstream, kind) {
		return true
	}
	if s := r.policy.selected; s != nil && s[kind].mayRefuse(leads) {
		return true
	}
	open := r.policy.fallback != Deny
	for _, h := range r.rules {
		names := h.kinds[kind]
		switch {
		case !h.at(upstream) || !h.anyKind && names == nil:
		case h.Effect == Deny:
			if h.anyKind || leads == nil || names.canRestrict(leads) {
				return true
			}
		case h.when == nil && !h.lacking:
			open = open || h.anyKind || names.matchesAll()
		}
	}
	return !open
}

// dependsOnURI reports whether the URI of a resource of the upstream may decide what the
// caller may do with it, or how often.
func (r *Rights) dependsOnURI(upstream string, leads []string) bool {
	if r.mayRefuse(call.Resource, upstream, leads) {
		return true
	}
	for _, h := range r.rules {
		names := h.kinds[call.Resource]
		if !h.at(upstream) || !h.anyKind && names == nil || h.Effect == Allow && h.Limit == nil {
			continue
		}
		if (h.when != nil || !h.anyKind && !names.matchesAll()) && (h.anyKind || leads == nil || names.canRestrict(leads)) {
			return true
		}
	}
	return false
}

func (r *Rights) reachesKind(kind call.Kind, upstream string, leads []string) bool {
	if r.narrower != nil && !r.narrower.reachesKind(kind, upstream, leads) {
		return false
	}
	if u := r.policy.upstreams[upstream]; u != nil && u[kind].nothing() {
		return false
	}
	if s := r.policy.selected; s != nil && (s[kind].nothing() || !s[kind].all && !slices.ContainsFunc(leads, s[kind].allow.canBegin)) {
		return false
	}
	allowed := r.policy.fallback == Allow
	for _, h := range r.rules {
		names := h.kinds[kind]
		if !h.at(upstream) || !h.anyKind && names == nil {
			continue
		}
		if h.Effect == Deny {
			if h.when == nil && (h.anyKind || names.matchesAll()) {
				return false
			}
			continue
		}
		allowed = allowed || h.anyKind || slices.ContainsFunc(leads, names.canBegin)
	}
	return allowed
}

// nothing reports whether the selection keeps everything out.
func (s *selection) nothing() bool { return s.deny.matchesAll() || !s.all && len(s.allow.written) == 0 }

// mayRefuse reports whether the selection may keep out a name that begins with one of the
// leads; nil stands for any beginning.
func (s *selection) mayRefuse(leads []string) bool {
	return !s.all && !s.allow.matchesAll() || len(s.deny.written) > 0 && (leads == nil || s.deny.canRestrict(leads))
}

// TellsCallersApart reports whether callers may have different rights.
func (p *Policy) TellsCallersApart() bool { return p.everyone == nil }

// ReadsItems reports whether a decision may depend on what lists say of a resource besides
// its URI. Then an unlisted URI also gets the decision about the listed resource of which
// it is the canonical spelling.
func (p *Policy) ReadsItems() bool {
	if p.narrower != nil && p.narrower.ReadsItems() {
		return true
	}
	for _, r := range p.rules {
		if r.uses&useResource != 0 && r.uses&useAnnotations != 0 {
			return true
		}
	}
	return false
}
