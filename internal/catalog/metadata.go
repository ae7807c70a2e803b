package catalog

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/wire"
)

// Enriches reports whether results get metadata of the catalog that the upstream did not
// send (SEP-2093).
func (t *Table) Enriches() bool { return t.opts.Enrich }

// Enriches is Enriches of the table.
func (v *View) Enriches() bool { return v.table.opts.Enrich }

// Describe returns the description of a resource under the URI of the request: its list
// item, otherwise one made from the first template that matches. It returns nil if the
// caller sees neither.
func (v *View) Describe(t Target) wire.Raw {
	if t.Entry != nil {
		return t.Entry.Raw
	}
	for p := range matching(v.table.natives(t.Part), t.Native) {
		if v.allowed[call.Template][p.entry.index] {
			return v.filled(p.entry.Raw, t.Public)
		}
	}
	return nil
}

// filled returns the description of a resource with this URI, made from its template.
func (v *View) filled(template wire.Raw, uri string) wire.Raw {
	e := wire.NewEdit(template)
	e.Remove(e.Root(), "uri") // a template has no URI
	for m := range e.Root().Members() {
		if m.Is("uriTemplate") {
			e.ReplaceString(m.Key, "uri")
			e.ReplaceString(m.Value, uri)
		}
	}
	if !v.table.opts.Enrich {
		return e.Bytes()
	}
	return enrich.ListItem(e.Bytes())
}

// describer returns a function that describes the resources in the result of reading the
// target: the target itself and listed resources of its upstream.
func (v *View) describer(t Target) func(uri string) wire.Raw {
	return func(uri string) wire.Raw {
		if uri == t.Public {
			return v.Describe(t)
		}
		if e := v.serving(v.table.public[call.Resource][uri]); e != nil && e.part == t.Part {
			return e.Raw
		}
		return nil
	}
}

// Enrich adds missing metadata to the result of reading the target, under public names.
func (v *View) Enrich(t Target, result wire.Raw) wire.Raw {
	if !v.table.opts.Enrich {
		return result
	}
	return enrich.ReadResult(result, v.describer(t))
}

// Metadata returns the result of resources/metadata from the catalog, for a client of the
// revision, and false if the catalog does not know the resource.
func (v *View) Metadata(t Target, rev wire.Revision, now time.Time) (wire.Raw, bool) {
	resource := v.Describe(t)
	if resource == nil {
		return nil, false
	}
	b := append(make([]byte, 0, len(resource)+128), '{')
	if isModern(downlevel.ItemClassOf(rev)) {
		fresh := freshnessOf([]*Part{t.Part})
		fresh.private = fresh.private || v.fresh.private
		b = fresh.appendMembers(b, fresh.ttl(now))
	}
	b = append(b, `"resource":`...)
	b = append(b, resource...)
	return append(b, '}'), true
}
