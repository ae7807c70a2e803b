package oauthmeta

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadChallenge(t *testing.T) {
	const m = "https://h.example/m?a=b"
	named := Challenge{Metadata: m, Scopes: []string{"a", "b"}}
	lacks := Challenge{Error: InsufficientScope, Scopes: []string{"a", "b"}}
	for name, tc := range map[string]struct {
		headers []string
		want    Challenge
	}{
		"none":                        {nil, Challenge{}},
		"empty":                       {[]string{""}, Challenge{}},
		"a scheme alone":              {[]string{`Bearer`}, Challenge{}},
		"all parameters":              {[]string{`Bearer resource_metadata="` + m + `", error="insufficient_scope", scope="a b"`}, Challenge{m, InsufficientScope, []string{"a", "b"}}},
		"names in another case":       {[]string{`bEARER Resource_Metadata="` + m + `", SCOPE="a b"`}, named},
		"another scheme":              {[]string{`DPoP error="insufficient_scope", scope="a b"`}, Challenge{}},
		"a scheme that begins alike":  {[]string{`Bearers scope="a b"`}, Challenge{}},
		"no scheme":                   {[]string{`scope="a b", error="insufficient_scope"`}, Challenge{}},
		"no white space":              {[]string{`Bearer resource_metadata="` + m + `",scope="a b"`}, named},
		"much white space":            {[]string{" Bearer \t resource_metadata  =\t\"" + m + "\" \t,\t scope = \"a \t b\"  "}, named},
		"empty elements":              {[]string{`,, Bearer resource_metadata="` + m + `", ,,scope="a b",`}, named},
		"an empty value":              {[]string{`Bearer realm="", error="", resource_metadata="` + m + `", scope="a b"`}, named},
		"empty scopes":                {[]string{`Bearer scope="", resource_metadata="` + m + `"`}, Challenge{Metadata: m}},
		"a token":                     {[]string{`Bearer error=insufficient_scope,scope="a b"`}, lacks},
		"a URL without quotes":        {[]string{`Bearer resource_metadata=` + m + `, scope="a b"`}, named},
		"scopes without quotes":       {[]string{`Bearer scope=a b, error=insufficient_scope`}, lacks},
		"escapes":                     {[]string{`Bearer realm="\", error=\"x\\", error="insuf\ficient_scope", scope="a b"`}, lacks},
		"an escaped quote before":     {[]string{`Basic realm="a\", Bearer scope=\"x", Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"an escaped backslash before": {[]string{`Basic realm="a\\", Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"a backslash without quotes":  {[]string{`Bearer realm=a\, resource_metadata="` + m + `", scope="a b"`}, named},
		"commas in quotes":            {[]string{`Basic realm="a, Bearer scope=x,", Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"a token68 before":            {[]string{`NTLM TlRMTVNTUAACAAAA, Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"a padded token68 before":     {[]string{`Negotiate ab/+cd==, Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"schemes alone before":        {[]string{`Negotiate, NTLM,Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"another scheme behind":       {[]string{`Bearer resource_metadata="` + m + `", scope="a b", Basic realm="x", error="y", scope="z"`}, named},
		"a scheme alone behind":       {[]string{`Bearer resource_metadata="` + m + `", scope="a b",Basic`}, named},
		"several headers":             {[]string{`Basic realm="x"`, `Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"a header without scheme":     {[]string{`Bearer error="insufficient_scope"`, `scope="a b"`}, Challenge{Error: InsufficientScope}},
		"several of Bearer":           {[]string{`Bearer realm="x"`, `Bearer resource_metadata="` + m + `"`, `Bearer scope="a b", resource_metadata="https://other.example"`}, named},
		"one with an error":           {[]string{`Bearer scope="x", Bearer error="insufficient_scope", scope="a b"`}, lacks},
		"an error without scopes":     {[]string{`Bearer scope="x", Bearer error="insufficient_scope"`}, Challenge{Error: InsufficientScope}},
		"scopes after empty ones":     {[]string{`Bearer scope="", Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"one of two errors":           {[]string{`Bearer error="insufficient_scope", scope="a b", Bearer error="invalid_token", scope="x"`}, lacks},
		"a malformed header":          {[]string{`"`, `Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"a malformed challenge":       {[]string{`Basic realm="x" y, @, Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"an element of no challenge":  {[]string{`Bearer error="insufficient_scope", @, scope="a b"`}, Challenge{Error: InsufficientScope}},
		"text behind a quote":         {[]string{`Bearer error="insufficient_scope" x, scope="a b"`}, Challenge{Scopes: []string{"a", "b"}}},
		"a quote that does not end":   {[]string{`Bearer resource_metadata="` + m + `", scope="a b", error="x, scope=y`}, named},
		"an escape that does not end": {[]string{`Bearer resource_metadata="` + m + `", scope="a b", error="x\`}, named},
		"scopes that are none":        {[]string{"Bearer scope=\"a \x1b[31m é \\\"x\\\" \\\\ b\x7f b\", error=insufficient_scope"}, lacks},
		"too long":                    {[]string{`Bearer scope="` + strings.Repeat("x", maxChallenges) + `"`, `Bearer resource_metadata="` + m + `", scope="a b"`}, named},
		"too long together":           {[]string{strings.Repeat(",", maxChallenges), `Bearer resource_metadata="` + m + `", scope="a b"`}, Challenge{}},
	} {
		got := ReadChallenge(http.Header{"Www-Authenticate": tc.headers})
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %.200q is read otherwise: %s", name, tc.headers, diff)
		}
	}
}

// A challenge is read from the Bearer scheme alone. What a quoted string contains is neither a
// challenge nor a parameter.
func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer resource_metadata="https://h.example/.well-known/oauth-protected-resource", scope="a b"`, `Basic realm="x"`)
	f.Add(`bearer error=invalid_token,`, `Bearer`)
	f.Add(`Negotiate abc==, Bearer scope="\""`, ``)
	f.Add(`", Bearer error="x`, `\", scope="a`)
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, one, other string) {
		c := ReadChallenge(http.Header{"Www-Authenticate": {one, other}})
		if (c.Metadata != "" || len(c.Scopes) > 0 || c.Error != "") && !strings.Contains(strings.ToLower(one+" "+other), "bearer") {
			t.Errorf("%q and %q are read as %+v", one, other, c)
		}
		if len(c.Metadata)+len(c.Error)+len(strings.Join(c.Scopes, "")) > maxChallenges {
			t.Errorf("%q and %q are read beyond the bound", one, other)
		}
		for _, scope := range c.Scopes {
			if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("%q and %q name the scope %q", one, other, scope)
			}
		}
		header := `Basic realm="` + quote.Replace(one) + `", Bearer realm="` + quote.Replace(one) + `", error="` + quote.Replace(other) + `", resource_metadata="` + quote.Replace(one) + `"`
		if len(header) > maxChallenges {
			return
		}
		if c := ReadChallenge(http.Header{"Www-Authenticate": {header}}); c.Error != other || c.Metadata != one || len(c.Scopes) > 0 {
			t.Errorf("%q is read as %+v", header, c)
		}
	})
}
