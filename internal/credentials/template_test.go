package credentials

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestTemplates(t *testing.T) {
	ann := &call.Principal{
		Subject: "ann", Issuer: "https://idp", Groups: []string{"a", "b c"},
		Claims: wire.Raw(`{"n":7,"big":12345678901234567890,"ok":true,"team":{"name":"ops"},"a.b":"dotted","list":["x","y"],"odd":["x",1],"none":null,
			"obj":{},"empty":"","lines":"a\r\nX-Admin: 1","nul":"a\u0000b","wide":"jörg","space":" admin","comma":["a,admin"]}`),
	}
	for _, tc := range []struct{ expression, want, fault string }{
		{"principal.subject", "ann", ""},
		{"principal.issuer", "https://idp", ""},
		{"principal.groups", "a,b c", ""},
		{"principal.claims.n", "7", ""},
		{"principal.claims.big", "12345678901234567890", ""},
		{"principal.claims.ok", "true", ""},
		{"principal.claims.team.name", "ops", ""},
		{"principal.claims.a.b", "dotted", ""},
		{"principal.claims.list", "x,y", ""},
		{"principal.claims.wide", "jörg", ""},
		{"principal.claims.gone", "", "has no principal.claims.gone"},
		{"principal.claims.none", "", "has no principal.claims.none"},
		{"principal.claims.empty", "", "has no principal.claims.empty"},
		{"principal.claims.obj", "", "has no principal.claims.obj"},
		{"principal.claims.odd", "", "has no principal.claims.odd"},
		{"principal.claims.comma", "", "has no principal.claims.comma"},
		{"principal.claims.lines", "", "characters that a header must not contain"},
		{"principal.claims.nul", "", "characters that a header must not contain"},
		{"principal.claims.space", "", "characters that a header must not contain"},
	} {
		s := source(t, Options{Headers: map[string][]Part{"x-who": {{Text: "<"}, {Expression: tc.expression}, {Text: ">"}}}})
		if tc.fault != "" {
			fails(t, s, ann, tc.fault)
			continue
		}
		h, err := s.Headers(t.Context(), ann)
		if got := h["X-Who"]; err != nil || len(got) != 1 || got[0] != "<"+tc.want+">" {
			t.Errorf("%s is %q, %v; want %q", tc.expression, got, err, tc.want)
		}
		if h, err := s.Headers(t.Context(), nil); err != nil || len(h) != 0 {
			t.Errorf("requests of the gateway carry %v, %v", h, err)
		}
	}
	fails(t, source(t, Options{Headers: map[string][]Part{"X": {{Expression: "principal.groups"}}}}), call.Anonymous, "has no principal.groups")
	long := &call.Principal{Subject: strings.Repeat("x", maxHeader+1)}
	fails(t, source(t, Options{Headers: map[string][]Part{"X": {{Expression: "principal.subject"}}}}), long, "larger than")
	if _, err := New(Options{Upstream: "up", URL: at(t, server), Headers: map[string][]Part{"X": {{Expression: "principal.token"}}}}); err == nil {
		t.Error("an expression that is not on the list is accepted")
	}
}
