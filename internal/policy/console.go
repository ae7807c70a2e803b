package policy

import "mcpgateway/internal/call"

// Console decides whether a principal may open the console at the address of MCP, and says what
// each rule about it contributes. Only such rules allow it: neither rules about items nor the
// default do. A rule that denies wins.
func (p *Policy) Console(who *call.Principal) Explanation {
	out := Explanation{Decision: Decision{Effect: Deny, Rule: RuleDefault}}
	decided := false
	for _, r := range p.console {
		s := Step{Rule: r.Name, File: r.File, Line: r.Line, Effect: r.Effect, Matches: true, Reason: "who holds"}
		if lacks := r.Who.missing(who); lacks != "" {
			s.Matches, s.Reason = false, "who: the principal has none of the "+lacks
		}
		out.Steps = append(out.Steps, s)
		if d := newDecision(r.Effect); s.Matches && (!decided || d.wins(out.Decision)) {
			d.Rule, d.File, d.Line = r.Name, r.File, r.Line
			out.Decision, decided = d, true
		}
	}
	out.Steps = append(out.Steps, Step{Rule: RuleDefault, Effect: Deny, Matches: !decided, Reason: "applies if no rule with what.admin decides"})
	return out
}

// LimitsOf returns the limits that may count calls of a principal, whatever it calls.
func (p *Policy) LimitsOf(who *call.Principal) []*Limit {
	var out []*Limit
	for r := p.newRights(Caller{Principal: who}); r != nil; r = r.narrower {
		for _, h := range r.rules {
			if h.Limit != nil && !h.lacking {
				out = append(out, h.Limit)
			}
		}
	}
	return out
}
