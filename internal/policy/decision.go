package policy

import (
	"fmt"
	"slices"
)

// Effect is the effect of a rule, or of the default, on the matching calls.
type Effect uint8

// The effects. The zero Effect denies. Confirm allows a call with an obligation: the
// client's user has to consent to it. Another effect that allows with an obligation needs
// a constant, a row in effects, and a field in [Obligations].
const (
	Deny Effect = iota
	Allow
	Confirm
)

// effects says of each effect how it is written, which effects it wins over, and what it
// obliges to. [New] refuses an effect without a row.
var effects = [...]struct {
	name        string
	precedence  int // the effect of the matching rule with the highest one decides
	obligations Obligations
}{
	Deny:    {name: "deny", precedence: 2},
	Confirm: {name: "confirm", precedence: 1, obligations: Obligations{Confirm: true}},
	Allow:   {name: "allow", precedence: 0},
}

// known reports whether there is such an effect.
func (e Effect) known() bool { return int(e) < len(effects) && effects[e].name != "" }

// String returns the effect as the configuration has it: "deny", "allow" or "confirm".
func (e Effect) String() string {
	if !e.known() {
		return fmt.Sprintf("Effect(%d)", uint8(e))
	}
	return effects[e].name
}

// ParseEffect returns the effect with this name.
func ParseEffect(name string) (Effect, error) {
	for e := range effects {
		if effects[e].name == name {
			return Effect(e), nil
		}
	}
	return Deny, fmt.Errorf("there is no effect %q", name)
}

// Effects returns all effects, each before those that it wins over.
func Effects() []Effect {
	out := make([]Effect, len(effects))
	for e := range effects {
		out[e] = Effect(e)
	}
	slices.SortFunc(out, func(a, b Effect) int { return effects[b].precedence - effects[a].precedence })
	return out
}

// Obligations are the conditions that an allowed call still has to meet. The zero
// Obligations demand nothing.
type Obligations struct {
	// Confirm demands that the client's user consents before the call is made.
	Confirm bool
	// Limits are taken before the call is made.
	Limits []*Limit
}

// and returns the obligations of both.
func (o Obligations) and(other Obligations) Obligations {
	return Obligations{Confirm: o.Confirm || other.Confirm, Limits: union(o.Limits, other.Limits)}
}

// Decision says whether a call is allowed, which obligations come with that, and which
// rule made the decision. The zero Decision denies.
type Decision struct {
	// Effect is that of the rule, or of the default. Compare decisions by their methods:
	// there may be more effects that allow.
	Effect Effect
	Obligations
	Rule string // the name of the rule, or one of the constants below: fit for the label of a metric
	File string // the file of that rule, "" if no rule decided
	Line int
	// Challenge says that the caller lacks nothing but scopes; any of Scopes would do.
	// Such a decision denies.
	Challenge bool
	Scopes    []string
}

// The values of Decision.Rule if no rule of the configuration decides.
const (
	RuleDefault       = "default"
	RuleUpstreamDeny  = "upstream.deny"  // a deny glob of the upstream matched
	RuleUpstreamAllow = "upstream.allow" // no allow glob of the upstream matched
	RuleProfileDeny   = "profile.deny"   // a deny glob of the profile matched
	RuleProfileAllow  = "profile.allow"  // the profile does not select the item
	RuleURI           = "uri"            // the URI is neither listed nor canonical
	RuleOwn           = "own"            // the item is the gateway's own
	RuleUnknown       = "unknown"        // there is no such item; never the outcome of a judgement
)

// newDecision returns the decision of a known effect, without the rule.
func newDecision(e Effect) Decision { return Decision{Effect: e, Obligations: effects[e].obligations} }

// Allowed reports whether the call may be made once the obligations are met.
func (d Decision) Allowed() bool { return d.Effect != Deny }

// Denied reports whether the call may not be made.
func (d Decision) Denied() bool { return d.Effect == Deny }

// NeedsConfirmation reports whether the client's user has to consent to the call.
func (d Decision) NeedsConfirmation() bool { return d.Allowed() && d.Confirm }

// AllowedOutright reports whether the call may be made without the consent of a user.
func (d Decision) AllowedOutright() bool { return d.Allowed() && !d.Confirm }

// Visible reports whether lists show the item that was decided about.
func (d Decision) Visible() bool { return d.Allowed() || d.Challenge }

// wins reports whether d is stricter than other. A challenge is less strict than another
// denial.
func (d Decision) wins(other Decision) bool {
	if d.Effect == other.Effect {
		return !d.Challenge && other.Challenge
	}
	return effects[d.Effect].precedence > effects[other.Effect].precedence
}

// both returns the decision about a call that has to be allowed by a and by b: the
// stricter one, with the obligations of both.
func both(a, b Decision) Decision {
	if b.wins(a) {
		a, b = b, a
	}
	if a.Allowed() {
		a.Obligations = a.Obligations.and(b.Obligations)
	}
	return a
}

// union returns the elements of a and those of b that a lacks; neither changes.
func union[T comparable](a, b []T) []T {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a[:len(a):len(a)], s)
		}
	}
	return a
}
