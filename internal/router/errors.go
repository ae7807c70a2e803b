package router

import (
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// unknown returns the error for a name that the caller's view does not have. The name belongs
// to no item, policy refuses the item, or it is a native name. All three look the same, and
// hints come from the caller's own view. t is the result of resolving the name. The audit
// records the reason.
func (r *Router) unknown(event string, c *call.Call, view *catalog.View, ref namespace.ItemRef, t catalog.Target, log *logFields) *wire.Error {
	d := view.RefusalOf(ref.Kind, ref.Name, t)
	it := auditedItem{kind: ref.Kind, public: view.OrdinaryName(ref.Kind, ref.Name)}
	if it.upstream, it.native, it.listed = view.ListedAt(ref.Kind, ref.Name); it.upstream == "" { // the client has made up the name
		it.public = r.masked(it.public)
	}
	if r.decided(event, c, it, &d, log) != nil {
		return errUnaudited
	}
	if log != nil {
		log.denial = denial{made: true, kind: ref.Kind, misspelling: t.Misspelling(), view: view, name: ref.Name}
	}
	if err := t.SpellingError(); err != nil && ref.Kind == call.Resource { // a template need not be canonical
		return err
	}
	return notFound(c, view, ref)
}

// notFound is that error for an item that policy allows, or may allow, with the reason for the log.
func (f *forwarding) notFound(reason string) *wire.Error {
	f.log.reason = reason
	return notFound(f.call, f.view, f.ref)
}

// notFound returns that error once the decision of policy is recorded.
func notFound(c *call.Call, view *catalog.View, ref namespace.ItemRef) *wire.Error {
	if ref.Kind == call.Resource || ref.Kind == call.Template {
		code := int64(wire.CodeInvalidParams)
		if c.Client.Era() == wire.EraLegacy {
			code = wire.CodeResourceNotFound
		}
		data := wire.SetMember(wire.Raw(`{}`), "uri", wire.String(ref.Name))
		return wire.Errorf(code, "resource not found: %q%s", clip(ref.Name), hint(view, ref)).WithData(data)
	}
	return wire.Errorf(wire.CodeInvalidParams, "unknown %s: %q%s", ref.Kind, clip(ref.Name), hint(view, ref))
}

func hint(view *catalog.View, ref namespace.ItemRef) string {
	near := view.SimilarNames(ref.Kind, ref.Name)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}
