package webui

import (
	"context"
	"net/http"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/wire"
)

var testerPage = &page{path: "/policy", name: "tester", title: "Policy", data: (*Console).testPolicy, posts: true}

// Examined is the result of the examination of credentials. It does not contain them.
type Examined struct {
	Principal *call.Principal // the principal of the credentials, nil for none
	Remarks   []string        // about its profile
	Accepted  bool
	Message   string // why they are refused
	Checks    []CredentialCheck
}

// CredentialCheck is one part of the judgement of credentials.
type CredentialCheck struct{ Name, Value, Expected, Result string }

// testerView has the data of the page: the question, and the answer if there is one.
type testerView struct {
	As, Kind, Name, Profile, Revision, Arguments string
	Kinds                                        []choice
	Profiles, Revisions                          []string
	Error                                        map[string]string // by field
	Remarks                                      []string
	Examined                                     *Examined
	Answer                                       *inspect.ExplanationReport
	Similar                                      []string // names near one that does not exist
	CanExamine                                   bool
}

// choice is a value of a select, with its text.
type choice struct{ Value, Text string }

// testerKinds are the kinds of items of a question. They are tried in this order.
var testerKinds = []choice{
	{"", "any kind"}, {call.Tool.String(), wire.MethodToolsCall}, {call.Prompt.String(), wire.MethodPromptsGet},
	{call.Resource.String(), wire.MethodResourcesRead}, {consoleKind, "this console at the main address"},
}

const consoleKind = "console"

// testPolicy answers as gateway explain does. A token is read from the body of a POST alone, so that it is in no URL, and the page
// does not send it back.
func (c *Console) testPolicy(r *http.Request) (any, error) {
	v := &testerView{
		As: strings.TrimSpace(r.FormValue("as")), Kind: r.FormValue("kind"), Name: strings.TrimSpace(r.FormValue("name")),
		Profile: r.FormValue("profile"), Revision: r.FormValue("revision"), Arguments: strings.TrimSpace(r.FormValue("args")),
		Kinds: testerKinds, Error: make(map[string]string), CanExamine: c.Examine != nil,
	}
	for _, p := range c.Inspector.Profiles() {
		v.Profiles = append(v.Profiles, p.Name)
	}
	for _, known := range append(wire.ModernRevisions(), wire.LegacyRevisions()...) {
		v.Revisions = append(v.Revisions, string(known))
	}
	if v.Revision == "" {
		v.Revision = string(wire.ModernRevisions()[0])
	}
	token := credentialsIn(r.PostFormValue("token"))
	if v.Name == "" && v.Kind != consoleKind {
		if r.Method == http.MethodPost {
			v.Error["name"] = "Write the public name of an item, as the catalog shows it."
		}
		return v, nil
	}
	if q, ok := v.question(); ok && c.chooseCaller(r.Context(), v, &q, token) {
		c.answer(v, q)
	}
	return v, nil
}

// credentialsIn returns a token as people copy it: with or without the word before it.
func credentialsIn(text string) string {
	text = strings.TrimSpace(text)
	if scheme, rest, ok := strings.Cut(text, " "); ok && strings.EqualFold(scheme, "Bearer") {
		text = strings.TrimSpace(rest)
	}
	return text
}

// question returns the question without its principal.
func (v *testerView) question() (inspect.Question, bool) {
	q := inspect.Question{Public: v.Name, Revision: wire.Revision(v.Revision), Console: v.Kind == consoleKind}
	if q.Revision.Era() == wire.EraUnknown {
		v.Error["revision"] = "There is no such revision."
	}
	if v.Arguments != "" {
		var ok bool
		if q.Arguments, ok = argumentsIn(v.Arguments); !ok {
			v.Error["args"] = wrongArguments
		}
	}
	return q, len(v.Error) == 0
}

const wrongArguments = `The arguments must be a JSON object, such as {"limit": 5}.`

// argumentsIn reads arguments that a person wrote.
func argumentsIn(text string) (wire.Raw, bool) {
	given := wire.Raw(text)
	return given, wire.Check(given, wire.Limits{}, wire.Strict) == nil && valueOf(given).Kind() == '{'
}

// chooseCaller sets the principal of a question. It reports false if there is none, and says why.
func (c *Console) chooseCaller(ctx context.Context, v *testerView, q *inspect.Question, token string) bool {
	if token != "" && v.As != "" {
		v.Error["token"] = "A principal and a token both name the caller. Remove one."
		return false
	}
	if token != "" && c.Examine != nil {
		v.Examined = c.Examine(ctx, token, v.Profile)
		q.Principal, v.Remarks = v.Examined.Principal, v.Examined.Remarks
		return q.Principal != nil
	}
	as := v.As
	if as == "" {
		as = call.Anonymous.Subject
	}
	p, err := inspect.ParsePrincipal(as)
	refused := ""
	if err == nil && c.Assume != nil {
		p, v.Remarks, refused, err = c.Assume(p, v.Profile)
	}
	if err != nil {
		v.Error["as"] = err.Error()
		return false
	}
	if refused != "" {
		v.Examined = &Examined{Principal: p, Message: refused}
	}
	q.Principal = p
	return true
}

// answer explains the question for the first kind that has the name.
func (c *Console) answer(v *testerView, q inspect.Question) {
	if q.Console {
		e := c.Inspector.ExplainConsole(q.Principal)
		v.Answer = e.Report(&q)
		return
	}
	var kinds []call.Kind
	for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource} {
		if v.Kind == "" || v.Kind == kind.String() {
			kinds = append(kinds, kind)
		}
	}
	for _, explain := range []func(inspect.Question) (inspect.Explanation, bool){c.Inspector.Explain, c.Inspector.ExplainUnlisted} {
		for _, q.Kind = range kinds {
			if e, ok := explain(q); ok {
				v.Answer = e.Report(&q)
				return
			}
		}
	}
	v.Error["name"] = "No upstream has this item now. The catalog shows all names."
	for _, q.Kind = range kinds {
		if v.Similar = c.Inspector.Similar(q); len(v.Similar) > 0 {
			return
		}
	}
}
