package policy

import "mcpgateway/internal/call"

// Narrowed returns the policy of a profile: whatever p and own both allow. The stricter
// decision holds, with the obligations of both, so own cannot grant what p refuses. Limits of
// p count calls of all profiles together. own must be the policy of a profile that is not
// narrowed itself.
func (p *Policy) Narrowed(own *Policy) *Policy {
	out := *p
	out.profile, out.narrower, out.everyone = own.profile, own, nil
	if p.facts.none() && own.facts.none() {
		out.everyone = out.newRights(Caller{Principal: call.Anonymous})
	}
	return &out
}

// isOwn reports whether the policy is that of a profile alone.
func (p *Policy) isOwn() bool { return p.profile != "" && p.narrower == nil }

// HasLists reports whether the lists of an upstream may keep out items of a kind.
func (p *Policy) HasLists(upstream string, kind call.Kind) bool {
	u := p.upstreams[upstream]
	return u != nil && u[kind].restricts()
}

// Selects reports whether the lists of the policy let an item through. Rules are not asked.
func (p *Policy) Selects(it Item) bool { return p.leavesOut(&it) == "" }
