package latest

import (
	"fmt"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func token(subject string, issuedAt int, groups ...string) *call.Principal {
	return &call.Principal{Subject: subject, Issuer: "https://idp", AuthMethod: "jwt", Groups: groups, Claims: wire.Raw(fmt.Sprintf(`{"iat":%d}`, issuedAt))}
}

func TestLatest(t *testing.T) {
	var r Principals
	before, after := token("ann", 1, "staff", "admin"), token("ann", 2, "staff")
	if got := r.Latest(before); got != before {
		t.Errorf("a principal without a record is %+v", got)
	}
	r.Record(before)
	r.Record(token("bob", 9))
	r.Record(after)
	if got := r.Latest(before); got != after {
		t.Errorf("the latest is %+v", got)
	}
	r.Record(before) // an older token that is still good
	if got := r.Latest(before); got != after {
		t.Errorf("after an older token the latest is %+v", got)
	}
	again := token("ann", 2)
	r.Record(again)
	if got := r.Latest(before); got != again {
		t.Errorf("of two tokens of one second the latest is %+v", got)
	}
	key := &call.Principal{Subject: "ann", Issuer: "https://idp", AuthMethod: "api-key"}
	if got := r.Latest(key); got != key {
		t.Errorf("another kind of credentials is taken for the same principal: %+v", got)
	}
	// The credentials of one profile count in all others.
	coding := before.In("coding")
	if got := r.Latest(coding); got.Profile != "coding" || got.Key() != coding.Key() || string(got.Claims) != string(again.Claims) {
		t.Errorf("in a profile the latest is %+v", got)
	}
	newest := token("ann", 3).In("coding")
	r.Record(newest)
	if got := r.Latest(before); got.Profile != "" || string(got.Claims) != string(newest.Claims) || r.Latest(coding) != newest {
		t.Errorf("the latest of another profile is not used: %+v", got)
	}
	for _, p := range []*call.Principal{call.Anonymous, call.Local, call.Anonymous.In("coding"), call.Local.In("coding")} {
		r.Record(p)
		if got := r.Latest(p); got != p {
			t.Errorf("%s is %+v", p.Subject, got)
		}
	}
}

// Records of principals that are no longer used are forgotten, the others stay.
func TestBound(t *testing.T) {
	var r Principals
	captured := token("ann", 1, "admin")
	latest := token("ann", 2)
	r.Record(latest)
	for i := range 5 * maxPrincipals {
		r.Record(token(fmt.Sprint("p", i), 1))
		if i%(maxPrincipals/2) == 0 && r.Latest(captured) != latest {
			t.Fatalf("the record is gone after %d other principals", i)
		}
		if n := len(r.young) + len(r.old); n > 2*maxPrincipals {
			t.Fatalf("%d records are held", n)
		}
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var r Principals
	p := token("ann", 1)
	r.Record(p)
	coding := p.In("coding")
	if n := testing.AllocsPerRun(100, func() { r.Record(p); r.Latest(p); r.Latest(coding) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
