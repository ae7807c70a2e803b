package webui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/webui/schemaform"
	"mcpgateway/internal/wire"
)

// The addresses of the pages, and of the page of an item.
const (
	tryPath    = Prefix + "/try"
	tryRunPath = Prefix + "/try/run"
	itemPath   = Prefix + "/catalog/item"
)

// tryPage has the form for a call. A POST to it only changes the form: items of arrays, choices, the JSON.
var tryPage = &page{path: "/try", name: "try", title: "Try it", data: (*Console).tryIt, hidden: "catalog", posts: true}

// tryView has the data of the form for a call.
type tryView struct {
	filter
	Public, Upstream, Title, Description string
	Hints                                []string
	Form                                 *schemaform.Form // nil for a resource
	URI                                  string
	JSON                                 string
	JSONProblem, Problem                 string
	Self, Back                           string
	From                                 string
	Template                             bool
	Visitor                              string // the subject of who looks, "" at the admin address
}

// formPrefix begins the names of the fields of arguments.
const formPrefix = "f"

// tryIt returns the form as it is after what a person did.
func (c *Console) tryIt(r *http.Request) (any, error) {
	posted := r.URL.Query()
	if r.Method == http.MethodPost {
		posted = r.PostForm
	}
	v, err := c.tryOf(r, posted)
	if err != nil {
		return nil, err
	}
	switch {
	case v.Form == nil || v.Form.Root == nil:
	case posted.Get("do") == "json":
		if raw, ok := v.Form.Value(); ok {
			v.JSON = jsontext.Editable(raw)
		} else {
			v.Problem = "Correct the marked fields first."
		}
	case v.JSON == "" && r.Method == http.MethodGet:
		if raw, ok := v.Form.Value(); ok {
			v.JSON = jsontext.Editable(raw)
		}
		v.Form = schemaform.New(formPrefix, c.schemaIn(v), nil) // without problems: nobody has filled it in
	}
	return v, nil
}

// tryOf returns the form for what the query or the form of a request names.
func (c *Console) tryOf(r *http.Request, q url.Values) (*tryView, error) {
	isPost := r.Method == http.MethodPost
	var visitor string
	if v := visitorOf(r); v != nil {
		visitor = v.Subject
		q = maps.Clone(q)
		q.Del("as")
	}
	f := c.filterIn(q)
	v := &tryView{Visitor: visitor, filter: f, Public: q.Get("name"), URI: strings.TrimSpace(q.Get("uri")), JSON: strings.ReplaceAll(q.Get("args"), "\r\n", "\n"), From: q.Get("from")}
	at := f.query(map[string]string{"name": v.Public, "q": "", "upstream": ""})
	v.Self, v.Back = tryPath+at, itemPath+at
	e, err := c.entryFor(&f, v.Public)
	switch {
	case err != nil && f.kind == call.Resource && v.Public != "": // results refer to resources that no list has
		v.URI = v.Public
		return v, nil
	case err != nil:
		return nil, err
	}
	v.Template = e.Kind == call.Template
	item := valueOf(e.Raw)
	v.Upstream, v.Title, v.Description, v.Hints = e.Upstream(), titleOf(item), item.Get("description").Str(), hintsOf(item.Get("annotations"))
	if v.URI == "" {
		v.URI = v.Public
	}
	if schema := c.schemaIn(v); schema.Exists() {
		if !isPost {
			q = nil
		}
		v.Form = schemaform.New(formPrefix, schema, q)
	}
	return v, nil
}

// entryFor returns the item of a filter.
func (c *Console) entryFor(f *filter, name string) (*catalog.Entry, error) {
	table := c.Inspector.Current(f.Profile)
	if table == nil {
		return nil, notFoundError("There is no profile " + f.Profile + ".")
	}
	if e := entryOf(table, f.kind, name); e != nil {
		return e, nil
	}
	return nil, notFoundError("There is no " + f.Kind + " " + name + " now.")
}

// schemaIn returns the schema of the arguments of a view's item, an absent value for a resource.
func (c *Console) schemaIn(v *tryView) wire.Value {
	e, err := c.entryFor(&v.filter, v.Public)
	if err != nil {
		return wire.Value{}
	}
	switch e.Kind {
	case call.Tool:
		return valueOf(e.Raw).Get("inputSchema")
	case call.Prompt:
		return promptSchema(valueOf(e.Raw).Get("arguments"))
	}
	return wire.Value{}
}

// promptSchema returns a schema for the arguments of a prompt.
func promptSchema(list wire.Value) wire.Value {
	properties, n := wire.Raw("{"), 0
	var required []string
	for arg := range list.Elements() {
		name := arg.Get("name").Str()
		if n == schemaform.MaxFields {
			break
		}
		if n > 0 {
			properties = append(properties, ',')
		}
		n++
		one := wire.Raw(`{"type":"string"}`)
		for _, member := range []string{"title", "description"} {
			if text := arg.Get(member); text.Exists() {
				one = wire.SetMember(one, member, text.Raw())
			}
		}
		properties = append(append(wire.AppendString(properties, name), ':'), one...)
		if arg.Get("required").Bool() {
			required = append(required, name)
		}
	}
	schema := wire.Raw(`{"type":"object"}`)
	schema = wire.SetMember(schema, "properties", append(properties, '}'))
	return valueOf(wire.SetMember(schema, "required", wire.Strings(required)))
}

var tryAction = &action{path: "/try/call", name: "try", logged: []string{"kind", "name", "as", "profile"}, do: (*Console).startTry}

// startTry makes the call of a form, and leads to its page.
func (c *Console) startTry(w http.ResponseWriter, r *http.Request) {
	v, err := c.tryOf(r, r.PostForm)
	if err != nil {
		c.fail(w, r, http.StatusNotFound, err.Error())
		return
	}
	t := &try{owner: c.ownerOf(r), kind: v.kind, name: v.Public, from: v.From}
	refuse := func(status int) { c.render(w, r, status, tryPage, v) }
	if !c.whoTries(r, v) {
		refuse(http.StatusUnprocessableEntity)
		return
	}
	t.viewpoint = v.viewpoint
	var ok bool
	if t.arguments, ok = v.argumentsOf(r.PostForm.Get("do")); !ok {
		refuse(http.StatusUnprocessableEntity)
		return
	}
	if v.Form == nil {
		t.name, t.arguments = v.URI, nil
	}
	by := "" // at the main address people call as themselves
	if v.Visitor == "" {
		by = c.actor(r)
	}
	if err := c.tries.start(t, t.call(by, r.RemoteAddr), c.Call); err != nil {
		v.Problem = "This call was not made: " + err.Error() + "."
		refuse(http.StatusTooManyRequests)
		return
	}
	http.Redirect(w, r, t.href(), http.StatusSeeOther)
}

// whoTries sets the principal of a call, and reports whether there is one. At the main address that is who sends
// the request: nobody calls there in the name of others.
func (c *Console) whoTries(r *http.Request, v *tryView) bool {
	if visitor := visitorOf(r); visitor != nil {
		if !slices.Contains(visitor.Profiles, v.profileName()) {
			v.Problem = "The call was not made: you may not use the profile " + v.profileName() + "."
			return false
		}
		v.who = visitor.In(v.Profile)
		return true
	}
	if v.As == "" {
		p, err := inspect.ParsePrincipal(call.Anonymous.Subject)
		if err == nil && c.Assume != nil {
			p, err = v.assume(c, p)
		}
		if err != nil {
			v.AsError = err.Error()
			return false
		}
		v.who = p.In(v.Profile)
	}
	return v.AsError == ""
}

// argumentsOf returns the arguments that a button sends: those of the form, or the JSON.
func (v *tryView) argumentsOf(button string) (wire.Raw, bool) {
	switch {
	case v.Form == nil:
		return nil, true
	case button == "raw" || v.Form.Root == nil:
		text := strings.TrimSpace(v.JSON)
		if text == "" {
			text = "{}"
		}
		given, ok := argumentsIn(text)
		if !ok {
			v.JSONProblem = wrongArguments
			if err := wire.Check(wire.Raw(text), wire.Limits{}, wire.Strict); err != nil {
				v.JSONProblem += " The text is no JSON: " + err.Error() + "."
			}
		}
		return given, ok
	}
	given, ok := v.Form.Value()
	if !ok {
		v.Problem = "The call was not made. Correct the marked fields."
	}
	return given, ok
}
