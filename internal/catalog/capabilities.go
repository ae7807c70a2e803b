package catalog

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// capability is a bit for each capability that the gateway declares if an upstream has it.
type capability byte

const (
	hasTools capability = 1 << iota
	hasPrompts
	hasResources
	hasSubscriptions
	hasCompletions

	hasAll = hasTools | hasPrompts | hasResources | hasSubscriptions | hasCompletions
)

// kindSet is a set of kinds of items: a bit for each.
type kindSet byte

// capabilitiesOf returns the union of the capabilities of the parts that the caller may
// know. shown are the kinds of their items that the caller sees. A part whose capabilities
// are unknown counts as having all of them, because legacy clients learn them only once. An
// empty view counts the same, because a reload may fill it. Capabilities for items that
// policy hides from the caller are left out.
func (v *View) capabilitiesOf(known []bool, shown []kindSet) capability {
	union, some := capability(0), false
	for _, p := range v.table.Parts() {
		i := p.index
		if !known[i] {
			continue
		}
		some = true
		mayList := func(kind call.Kind) bool { return shown[i]&(1<<kind) != 0 || v.mayAllow(p, kind) }
		has := p.capabilities
		if has&hasTools != 0 && !mayList(call.Tool) {
			has &^= hasTools
		}
		if has&hasPrompts != 0 && !mayList(call.Prompt) {
			has &^= hasPrompts
		}
		if has&hasResources != 0 && !mayList(call.Resource) && !mayList(call.Template) {
			has &^= hasResources | hasSubscriptions
		}
		if has&(hasPrompts|hasResources) == 0 {
			has &^= hasCompletions
		}
		union |= has
	}
	if !some {
		return hasAll
	}
	return union | v.table.ownCapabilities()
}

// mayAllow reports whether the caller may be shown an item of a kind of the part, whatever
// the upstream lists.
func (v *View) mayAllow(p *Part, kind call.Kind) bool {
	var leads [call.Kinds][]string
	leads[kind] = p.publicLeads[kind]
	return v.rights.MayAllow(p.Upstream(), leads)
}

// readCapabilities reads what an upstream declares, nil if unknown.
func readCapabilities(raw wire.Raw) capability {
	if wire.ValueOf(raw).Kind() != '{' {
		return hasAll
	}
	declared, has := wire.ValueOf(raw), capability(0)
	for _, m := range []struct {
		bit  capability
		name string
	}{
		{hasTools, "tools"}, {hasPrompts, "prompts"}, {hasResources, "resources"}, {hasCompletions, "completions"},
	} {
		if declared.Get(m.name).Exists() {
			has |= m.bit
		}
	}
	if declared.Get("resources", "subscribe").Bool() {
		has |= hasSubscriptions
	}
	return has
}

// object returns the capabilities as clients get them. Logging is the gateway's own.
func (c capability) object() wire.Raw {
	out := wire.Raw(`{`)
	for _, m := range []struct {
		bit  capability
		text string
	}{
		{hasTools, `"tools":{"listChanged":true},`},
		{hasPrompts, `"prompts":{"listChanged":true},`},
		{hasResources, `"resources":{`},
		{hasSubscriptions, `"subscribe":true,`},
		{hasResources, `"listChanged":true},`},
		{hasCompletions, `"completions":{},`},
	} {
		if c&m.bit != 0 {
			out = append(out, m.text...)
		}
	}
	return append(out, `"logging":{}}`...)
}

// Capabilities returns what the gateway declares to the caller: the union over the
// upstreams that the caller may know, and the extensions that the gateway relays. An
// upstream that was never connected counts as having all capabilities without extensions.
func (v *View) Capabilities() wire.Raw {
	out := v.capabilities.object()
	if v.extensions != nil {
		out = wire.SetMember(out, "extensions", v.extensions)
	}
	return out
}

// AwaitsFirst reports whether the caller sees no upstream that is up, or whose items an
// earlier run remembers, while the first attempt to connect to one of them goes on.
func (v *View) AwaitsFirst() bool { return len(v.unavailable) == len(v.parts) && v.Starting() }

// StartingSince returns when the latest upstream began its first attempt to connect, of those that
// the caller may know and whose attempt is still running. It is zero if there is none.
func (v *View) StartingSince() (latest time.Time) {
	for _, u := range v.unavailable {
		if u.Starting && u.Since.After(latest) {
			latest = u.Since
		}
	}
	return latest
}

// Undescribed reports whether the caller sees an upstream on its first attempt to connect
// of which nothing is known: neither capabilities nor instructions.
func (v *View) Undescribed() bool { return v.undescribed }
