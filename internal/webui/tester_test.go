package webui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
)

// ask posts a question to the policy tester and returns the page.
func ask(t *testing.T, c *Console, form url.Values) string {
	t.Helper()
	form.Set("csrf", c.sessions.formToken(""))
	answer := request{method: http.MethodPost, path: "/ui/policy", form: form}.to(c)
	if answer.Code != http.StatusOK {
		t.Fatalf("%v: %d %s", form, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// The policy tester shows the verdict, the rule with its place, and what each other rule says.
func TestPolicyTester(t *testing.T) {
	c, f := newTestConsole(t, Options{})
	when, _ := policy.NewCondition("args.limit < 10")
	f.policy = policy.MustNew(policy.Options{Default: policy.Deny, Rules: []policy.Rule{
		{Name: "devs", Effect: policy.Allow, Who: policy.Who{Groups: []string{"dev"}}, What: policy.What{Tools: []string{"files__read"}}, File: "g.yaml", Line: 12, Limit: &policy.Limit{Rate: 2}},
		{Name: "few", Effect: policy.Confirm, What: policy.What{Tools: []string{"files__write"}}, When: when, File: "g.yaml", Line: 14},
		{Name: "operators", Effect: policy.Allow, Who: policy.Who{Groups: []string{"ops"}}, What: policy.What{Admin: true}, File: "g.yaml", Line: 16},
	}})
	for _, test := range []struct {
		form  url.Values
		wants []string
	}{
		{url.Values{"name": {"files__read"}, "as": {"ann,group=dev"}}, []string{"allow", "g.yaml:12", "Limit of devs: 2/s", "does not match"}},
		{url.Values{"name": {"files__read"}, "as": {"bob"}}, []string{"deny", "<strong>default</strong>", "none of the groups"}},
		{url.Values{"name": {"files__read"}}, []string{"<strong>anonymous</strong>"}},
		{url.Values{"name": {"files__write"}, "as": {"bob"}, "args": {`{"limit":1}`}}, []string{"confirm", "asks its user", "g.yaml:14"}},
		{url.Values{"name": {"files__write"}, "as": {"bob"}, "args": {`{"limit":11}`}, "kind": {"tool"}}, []string{"deny", "when does not hold"}},
		{url.Values{"name": {"file:///a"}, "as": {"bob"}}, []string{"No upstream has this item"}},
		{url.Values{"name": {"files__raed"}, "as": {"bob"}}, []string{"Did you mean", "<code>files__read</code>"}},
		{url.Values{"name": {"files__read"}, "kind": {"prompt"}}, []string{"No upstream has this item"}},
		{url.Values{"name": {"files__read"}, "args": {"[]"}}, []string{"must be a JSON object"}},
		{url.Values{"name": {"files__read"}, "as": {"=x"}}, []string{"must begin with the subject"}},
		{url.Values{"name": {"files__read"}, "revision": {"1999"}}, []string{"no such revision"}},
		{url.Values{"name": {hostile}, "as": {hostile}}, []string{"&lt;script&gt;"}},
		{url.Values{}, []string{"Write the public name"}},
		{url.Values{"kind": {"console"}, "as": {"ann,group=ops"}}, []string{"allow", "g.yaml:16", "the console"}},
		{url.Values{"kind": {"console"}, "as": {"ann,group=dev"}}, []string{"deny", "none of the groups"}},
	} {
		page := ask(t, c, test.form)
		for _, want := range test.wants {
			if !strings.Contains(page, want) {
				t.Errorf("%v: the page lacks %q", test.form, want)
			}
		}
		if strings.Contains(page, "<script>alert") {
			t.Errorf("%v: the page has markup of the form", test.form)
		}
	}
	if answer := (request{method: http.MethodPost, path: "/ui/policy", form: url.Values{"name": {"files__read"}}}).to(c); answer.Code != http.StatusForbidden {
		t.Errorf("a question without the token of the form: %d", answer.Code)
	}
}

// A token is read from the body alone, judged as in a request, and not sent back.
func TestPolicyTesterReadsToken(t *testing.T) {
	const token = "eyJ.secret-token.sig"
	var examined []string
	c, f := newTestConsole(t, Options{Examine: func(_ context.Context, text, profile string) *Examined {
		examined = append(examined, text+" "+profile)
		return &Examined{Principal: &call.Principal{Subject: "ann", Groups: []string{"dev"}}, Message: "the token has expired", Checks: []CredentialCheck{{"exp", "yesterday", "after now", "wrong"}}}
	}})
	f.policy = policy.MustNew(policy.Options{Rules: []policy.Rule{{Name: "devs", Effect: policy.Allow, Who: policy.Who{Groups: []string{"dev"}}}}})
	page := ask(t, c, url.Values{"name": {"files__read"}, "token": {" Bearer " + token + "\n"}, "profile": {"default"}})
	for _, want := range []string{"refuses these credentials: the token has expired", "<strong>ann</strong>", "<code>exp</code>", "by the rule <strong>devs</strong>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "secret-token") {
		t.Error("the page has the token")
	}
	if len(examined) != 1 || examined[0] != token+" default" {
		t.Errorf("examined: %q", examined)
	}
	request{path: "/ui/policy?name=files__read&token=" + token}.to(c)
	if len(examined) != 1 {
		t.Error("a token in a URL was read")
	}
	if page := ask(t, c, url.Values{"name": {"files__read"}, "token": {token}, "as": {"bob"}}); !strings.Contains(page, "both name the caller") || len(examined) != 1 {
		t.Error("a principal and a token are accepted together")
	}
}
