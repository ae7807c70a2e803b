package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEffects(t *testing.T) {
	for _, e := range Effects() {
		if got, err := ParseEffect(e.String()); got != e || err != nil {
			t.Errorf("%s is read as %s, %v", e, got, err)
		}
	}
	if diff := cmp.Diff([]Effect{Deny, Confirm, Allow}, Effects()); diff != "" {
		t.Errorf("effects by precedence (-want +got):\n%s", diff)
	}
	for _, name := range []string{"", "Effect(7)", "Allow"} {
		if got, err := ParseEffect(name); err == nil || got != Deny {
			t.Errorf("%q is read as %s", name, got)
		}
	}
}

// An unknown effect is an error before any decision uses it.
func TestUnknownEffects(t *testing.T) {
	const unknown = Effect(7)
	for name, o := range map[string]Options{"default": {Default: unknown}, `"r"`: {Rules: []Rule{{Name: "r", Effect: unknown}}}} {
		if p, err := New(o); p != nil || err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "Effect(7)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPredicates(t *testing.T) {
	for _, c := range []struct {
		name                                         string
		d                                            Decision
		denied, allowed, confirmed, outright, listed bool
	}{
		{"zero", Decision{}, true, false, false, false, false},
		{"deny", newDecision(Deny), true, false, false, false, false},
		{"challenge", Decision{Challenge: true}, true, false, false, false, true},
		{"allow", newDecision(Allow), false, true, false, true, true},
		{"confirm", newDecision(Confirm), false, true, true, false, true},
	} {
		got := []bool{c.d.Denied(), c.d.Allowed(), c.d.NeedsConfirmation(), c.d.AllowedOutright(), c.d.Visible()}
		if diff := cmp.Diff([]bool{c.denied, c.allowed, c.confirmed, c.outright, c.listed}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Both returns the stricter of two decisions, with the obligations of both.
func TestBothDecisions(t *testing.T) {
	one, two := &Limit{Rate: 1}, &Limit{Rate: 2}
	limited := func(e Effect, limits ...*Limit) Decision {
		d := newDecision(e)
		d.Limits = limits
		return d
	}
	challenge := Decision{Challenge: true, Rule: "c"}
	for _, c := range []struct {
		name       string
		a, b, want Decision
	}{
		{"limits", limited(Allow, one), limited(Allow, two, one), limited(Allow, one, two)},
		{"a confirmation", limited(Allow, one), newDecision(Confirm), limited(Confirm, one)},
		{"a challenge", newDecision(Confirm), challenge, challenge},
		{"a denial", challenge, Decision{Rule: "d"}, Decision{Rule: "d"}},
		{"a denial, of limits", limited(Allow, one), Decision{Rule: "d"}, Decision{Rule: "d"}},
	} {
		for _, got := range []Decision{both(c.a, c.b), both(c.b, c.a)} {
			if diff := cmp.Diff(c.want.Effect, got.Effect); diff != "" || len(got.Limits) != len(c.want.Limits) || got.Confirm != c.want.Confirm || got.Rule != c.want.Rule {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
	}
}
