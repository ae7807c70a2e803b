package webui

import (
	"net/http"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/webui/schemaform"
	"mcpgateway/internal/wire"
)

var itemPage = &page{path: "/catalog/item", name: "item", title: "Item", data: (*Console).item, hidden: "catalog"}

// itemView has the data of the page of one item.
type itemView struct {
	filter
	Public, Native, Upstream, Title, Description string
	Facts                                        []fact
	Hints                                        []string
	Schemas                                      []schemaform.View
	Problems                                     []problem
	Raw                                          string
	Cut                                          bool // the JSON is longer
	Back, Query                                  string
	Explained                                    *inspect.ExplanationReport
	Arguments                                    string // of the question
	ArgumentsError                               string
}

// fact is one member of an item without a dedicated place on the page.
type fact struct{ Name, Value string }

func (c *Console) item(r *http.Request) (any, error) {
	f, name := c.filterOf(r), r.URL.Query().Get("name")
	table := c.Inspector.Current(f.Profile)
	if table == nil {
		return nil, notFoundError("There is no profile " + f.Profile + ".")
	}
	e := entryOf(table, f.kind, name)
	if e == nil {
		return nil, notFoundError("There is no " + f.Kind + " " + name + " now.")
	}
	item := valueOf(e.Raw)
	v := &itemView{
		filter: f, Public: e.Public, Native: e.Native, Upstream: e.Upstream(), Title: titleOf(item), Description: item.Get("description").Str(),
		Hints: hintsOf(item.Get("annotations")), Back: Prefix + "/catalog" + f.query(nil), Query: f.query(map[string]string{"name": name, "q": "", "upstream": ""}), Arguments: r.URL.Query().Get("args"),
	}
	if table.HiddenByLists(e) {
		v.Facts = append(v.Facts, fact{"Clients", "cannot see it: the lists of its upstream hide it"})
	}
	for _, member := range []string{"mimeType", "size"} {
		if value := item.Get(member); value.Exists() {
			v.Facts = append(v.Facts, fact{member, jsontext.Plain(value)})
		}
	}
	switch e.Kind {
	case call.Tool:
		v.Schemas = append(v.Schemas, schemaform.Describe("Arguments", item.Get("inputSchema"), "It takes no arguments."))
		if out := item.Get("outputSchema"); out.Exists() {
			v.Schemas = append(v.Schemas, schemaform.Describe("Structured result", out, "Any object."))
		}
	case call.Prompt:
		v.Schemas = append(v.Schemas, schemaform.DescribeArguments(item.Get("arguments")))
	}
	for _, found := range table.Findings() {
		if found.Kind == e.Kind && found.Upstream == v.Upstream && found.Native == e.Native {
			v.Problems = append(v.Problems, problemOf(found))
		}
	}
	v.Raw, v.Cut = jsontext.Indented(e.Raw)
	c.explain(v, e)
	return v, nil
}

// entryOf returns an item by its public name, nil if there is none.
func entryOf(table *catalog.Table, kind call.Kind, public string) *catalog.Entry {
	for _, e := range table.Published(kind) {
		if e.Public == public {
			return e
		}
	}
	return nil
}

// explain asks what policy says about the item for the chosen principal.
func (c *Console) explain(v *itemView, e *catalog.Entry) {
	if v.who == nil {
		return
	}
	q := inspect.Question{Kind: e.Kind, Public: e.Public, Principal: v.who, Revision: wire.Rev20260728}
	if v.Arguments != "" {
		var ok bool
		if q.Arguments, ok = argumentsIn(v.Arguments); !ok {
			v.ArgumentsError = wrongArguments
			return
		}
	}
	if q.Kind == call.Template {
		q.Kind = call.Resource
	}
	if found, ok := c.Inspector.Explain(q); ok {
		v.Explained = found.Report(&q)
	}
}
