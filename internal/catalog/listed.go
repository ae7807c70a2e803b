package catalog

import "mcpgateway/internal/call"

// Upstream returns the name of the upstream that lists the item.
func (e *Entry) Upstream() string { return e.part.Upstream() }

// PreferredName returns the public name that the item would have if no other item had it,
// "" if it has that name.
func (e *Entry) PreferredName() string { return e.preferredName }

// NeedsWholeView reports whether the item is one of the gateway's own whose answer depends on the
// whole view of the caller.
func (e *Entry) NeedsWholeView() bool { return e.wholeView }

// Tools returns the tools that the caller may call, in the order of lists, without own tools that
// serve the use of others. Lists may show fewer. The slice must not be changed.
func (v *View) Tools() []*Entry { return v.tools[v.metaTools:] }

// Usable returns the items that the caller may use, in order, whether or not lists show them. The
// slice must not be changed.
func (v *View) Usable(kind call.Kind) []*Entry {
	if kind == call.Tool {
		return v.tools
	}
	return v.listed[kind]
}

// Entries returns the listed items in order. The slice must not be changed.
func (v *View) Entries(kind call.Kind) []*Entry { return v.listed[kind] }

// ListedAt returns the upstream that lists an item under a public name, and its native name,
// whether or not the caller may see it. Like RefusalOf it is for the audit and for operators.
func (v *View) ListedAt(kind call.Kind, public string) (upstream, native string, ok bool) {
	e := v.table.public[kind][public]
	if e == nil || e.part == v.table.own {
		return "", "", false
	}
	return e.part.Upstream(), e.Native, true
}

// HeldReason returns why the tool that would have a public name here is held back, "" if none is. Like
// RefusalOf it is for the audit and for operators.
func (v *View) HeldReason(public string) string {
	held := v.table.Ordinary().heldTools
	if reason := held[public]; reason != "" || len(held) == 0 || !v.table.opts.Profile.ShortNames() {
		return reason
	}
	for _, p := range v.parts {
		ordinary, _ := p.naming.Name(public)
		if reason := held[ordinary]; reason != "" {
			return reason
		}
	}
	return ""
}

// NameOf returns the name by which the caller may use an item here, by its public name without a profile, or "".
func (v *View) NameOf(kind call.Kind, ordinary string) string {
	if v.table.ordinary == nil {
		return ""
	}
	for e := v.table.ordinary.public[kind][ordinary]; e != nil; e = e.next {
		if own := v.table.byOrdinary[kind][e.index]; own != nil && own.Public != ordinary {
			if t, ok := v.Resolve(kind, own.Public); ok && t.Entry == own {
				return own.Public
			}
		}
	}
	return ""
}
