package call

import (
	"testing"

	"mcpgateway/internal/wire"
)

func TestClientCan(t *testing.T) {
	const all = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true},"odd":true,"none":null}`
	for _, tc := range []struct {
		name         string
		capabilities wire.Raw
		path         []string
		want         bool
	}{
		{"declared", wire.Raw(all), []string{"elicitation"}, true},
		{"declared below", wire.Raw(all), []string{"elicitation", "url"}, true},
		{"written with an escape", wire.Raw(`{"\u0073ampling":{}}`), []string{"sampling"}, true},
		{"absent", wire.Raw(all), []string{"tasks"}, false},
		{"absent below", wire.Raw(all), []string{"sampling", "context"}, false},
		{"below what is absent", wire.Raw(all), []string{"tasks", "list"}, false},
		{"another case", wire.Raw(all), []string{"Elicitation"}, false},
		{"a setting is no capability", wire.Raw(all), []string{"roots", "listChanged"}, false},
		{"true is no object", wire.Raw(all), []string{"odd"}, false},
		{"null is no object", wire.Raw(all), []string{"none"}, false},
		{"nothing declared", nil, []string{"elicitation"}, false},
		{"capabilities that are no object", wire.Raw(`"elicitation"`), []string{"elicitation"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Client{Capabilities: tc.capabilities}
			if got := c.Can(tc.path...); got != tc.want {
				t.Errorf("Can(%q) = %v, want %v", tc.path, got, tc.want)
			}
		})
	}
}

func TestClientEra(t *testing.T) {
	for revision, want := range map[wire.Revision]wire.Era{
		wire.Rev20241105: wire.EraLegacy,
		wire.Rev20260728: wire.EraModern,
		"":               wire.EraUnknown,
	} {
		if got := (&Client{Revision: revision}).Era(); got != want {
			t.Errorf("era of %q = %v, want %v", revision, got, want)
		}
	}
}

func TestPrincipalKey(t *testing.T) {
	ann := Principal{Subject: "ann", Issuer: "https://idp.example", AuthMethod: "jwt", Groups: []string{"a"}}
	regrouped := ann
	regrouped.Groups, regrouped.Scopes = []string{"b"}, []string{"s"}
	if ann.Key() != regrouped.Key() {
		t.Error("groups and scopes changed the key")
	}

	others := []*Principal{
		&ann,
		{Subject: "bob", Issuer: ann.Issuer, AuthMethod: ann.AuthMethod},
		{Subject: ann.Subject, Issuer: "https://other.example", AuthMethod: ann.AuthMethod},
		{Subject: ann.Subject, Issuer: ann.Issuer, AuthMethod: "mtls"},
		{Subject: ann.Issuer + ann.Subject, AuthMethod: ann.AuthMethod},
		ann.In("coding"),
		ann.In("ops"),
		{Subject: "ann\x00coding", Issuer: ann.Issuer, AuthMethod: ann.AuthMethod},
		{Subject: "@coding\x00" + ann.Key(), AuthMethod: ann.AuthMethod},
		Anonymous,
		Anonymous.In("coding"),
		Local,
		Local.In("coding"),
	}
	seen := make(map[string]*Principal)
	for _, p := range others {
		if q := seen[p.Key()]; q != nil {
			t.Errorf("%+v and %+v have one key", p, q)
		}
		seen[p.Key()] = p
		if got := ProfileOf(p.Key()); got != p.Profile {
			t.Errorf("the key of %+v has the profile %q", p, got)
		}
		for _, q := range others {
			if p.Same(q) != (p.Key() == q.Key()) {
				t.Errorf("Same(%+v, %+v) = %v", p, q, p.Same(q))
			}
		}
	}
}

// TestPrincipalIn checks what a profile changes of a principal: its key, and nothing else.
func TestPrincipalIn(t *testing.T) {
	ann := &Principal{Subject: "ann", Issuer: "https://idp.example", AuthMethod: "jwt", Groups: []string{"a"}}
	if got, want := ann.Key(), "jwt\x00https://idp.example\x00ann"; got != want || ann.Identity() != want {
		t.Errorf("Key() = %q, Identity() = %q, want %q", got, ann.Identity(), want)
	}
	coding := ann.In("coding")
	if coding.Identity() != ann.Identity() || coding.Key() == ann.Key() || coding.Groups[0] != "a" || ann.Profile != "" {
		t.Errorf("In(coding) = %+v of %+v", coding, ann)
	}
	if coding.In("coding") != coding || ann.In("") != ann || coding.In("").Key() != ann.Key() {
		t.Error("In changed a principal that was in the profile, or did not lead back")
	}
	for _, profile := range []string{"", "coding"} {
		if a, l := Anonymous.In(profile), Local.In(profile); !a.IsAnonymous() || a.IsLocal() || l.IsAnonymous() || !l.IsLocal() {
			t.Errorf("in profile %q: anonymous %+v, local %+v", profile, a, l)
		}
	}
	if coding.IsAnonymous() || coding.IsLocal() {
		t.Error("an authenticated principal is anonymous or local")
	}
}

func TestCallWith(t *testing.T) {
	c := &Call{Method: "tools/call", Params: wire.Raw(`{"name":"a"}`)}
	d := c.With(wire.Raw(`{"name":"b"}`))
	if string(c.Params) != `{"name":"a"}` {
		t.Errorf("With changed its receiver: %s", c.Params)
	}
	if d.Method != c.Method || string(d.Params) != `{"name":"b"}` {
		t.Errorf("With = %+v", d)
	}
}
