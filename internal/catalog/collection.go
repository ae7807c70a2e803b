package catalog

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/wire"
)

// Adopted reports what was found in one item of a collection.
type Adopted struct {
	Native   string
	Findings []conform.Violation
	More     int
	Removed  sanitize.Counts
}

// Adopt returns a page of resources/list that an upstream answered for one collection, under
// native names, with its items treated like those of the table: checked, sanitized, and
// without items that the caller may not see. It calls report for each item with findings.
func (v *View) Adopt(p *Part, result wire.Raw, report func(Adopted)) wire.Raw {
	rules := p.Rules()
	lists := conform.ItemChecker{Mode: rules.Conformance, Revision: p.Revision(), Sanitize: rules.Sanitize}
	edit := wire.NewEdit(result)
	for m := range edit.Root().Members() {
		if !m.Is("resources") {
			continue
		}
		edit.RemoveElements(m.Value, func(el wire.Value) bool {
			it := lists.Check(call.Resource, el.Raw())
			adopted := Adopted{Native: it.Native, Findings: it.Violations, More: it.More, Removed: it.Removed}
			if it.Unusable != "" {
				adopted.Findings = []conform.Violation{{Kind: it.UnusableKind, Path: "$", Message: it.Unusable}}
			}
			item := it.Item
			if len(adopted.Findings) > 0 || adopted.Removed != (sanitize.Counts{}) {
				report(adopted)
			}
			if it.Unusable != "" || !v.mayList(p, it.Native, item) {
				return true
			}
			if &item[0] != &el.Raw()[0] {
				edit.Replace(el, item)
			}
			return false
		})
	}
	return edit.Bytes()
}

// mayList reports whether the caller may see a resource in a list.
func (v *View) mayList(p *Part, native string, item wire.Raw) bool {
	public := p.naming.PublicURI(native)
	if e := v.table.entryOf(call.Resource, p, public, native); e != nil {
		return v.policies[call.Resource][e.index].Listed().Visible()
	}
	return v.unlistedPolicy(p, public, native, item).Listed().Visible()
}

// FilterContents returns the result of reading the target, under public names, without the
// contents of other resources that the caller may not read.
func (v *View) FilterContents(t Target, result wire.Raw) wire.Raw {
	edit := wire.NewEdit(result)
	for m := range edit.Root().Members() {
		if m.Is("contents") {
			edit.RemoveElements(m.Value, func(el wire.Value) bool {
				uri, ok := el.Get("uri").Text()
				return ok && uri != t.Public && !v.mayRead(t.Part, uri)
			})
		}
	}
	return edit.Bytes()
}

// mayRead reports whether the caller may read a resource of a part without confirmation.
func (v *View) mayRead(p *Part, public string) bool {
	native, ok := p.naming.NativeURI(public)
	if !ok {
		return false
	}
	params := wire.SetMember(wire.Raw(`{}`), "uri", wire.String(public))
	d := v.PolicyFor(call.Resource, p, p.naming.PublicURI(native), native).Decide(policy.Request{Method: wire.MethodResourcesRead, Params: params})
	return d.AllowedOutright()
}
