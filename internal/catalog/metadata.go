package catalog

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/wire"
)

// Enriches reports whether results get the metadata that the catalog has and that
// the upstream did not send with them (SEP-2093).
func (t *Table) Enriches() bool { return t.opts.Enrich }

// Enriches is that of the table.
func (v *View) Enriches() bool { return v.table.opts.Enrich }

// Describe returns what the catalog knows of a resource, under the URI that it was
// asked for with: the list's item, else what the first template says that can
// expand to the URI, nil where there is neither that may be seen.
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

// filled returns the resource that a template describes, once its URI is known.
func (v *View) filled(template wire.Raw, uri string) wire.Raw {
	e := wire.NewEdit(template)
	e.Remove(e.Root(), "uri") // what a template means by one is not known
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

// describer returns what the catalog knows of the resources that a read of the
// target may answer with: of the target itself, and of others of its upstream that
// are listed.
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

// Enrich returns the result of reading the target, under public names, with the
// metadata that it lacks.
func (v *View) Enrich(t Target, result wire.Raw) wire.Raw {
	if !v.table.opts.Enrich {
		return result
	}
	return enrich.ReadResult(result, v.describer(t))
}

// Metadata returns the result of resources/metadata as the catalog has it, for a
// client of the revision, and false when the catalog does not know the resource.
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
