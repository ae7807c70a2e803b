package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// addOwn adds the gateway's own items of a profile, before all others.
func (t *Table) addOwn(items []profile.OwnItem) {
	for kind := range t.public {
		t.public[kind] = make(map[string]*Entry)
	}
	if len(items) == 0 {
		return
	}
	t.own = &Part{naming: namespace.Own(), own: true}
	t.parts = append(t.parts, t.own)
	checker := conform.ItemChecker{Mode: conform.Off, Cache: t.opts.Schemas, Inputs: true}
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b profile.OwnItem) int { return cmp.Compare(orderOf(a), orderOf(b)) })
	for _, it := range items {
		checked := checker.Check(it.Kind, it.Definition)
		e := &Entry{
			Kind: it.Kind, Native: checked.Native, Public: checked.Native, Input: checked.Input,
			part: t.own, index: len(t.entries[it.Kind]), meta: it.Meta, wholeView: it.WholeView,
		}
		e.setRaw(it.Definition)
		t.own.source.Items[it.Kind] = append(t.own.source.Items[it.Kind], it.Definition)
		t.entries[it.Kind] = append(t.entries[it.Kind], e)
		t.public[it.Kind][e.Public] = e
	}
}

// orderOf puts tools that serve the use of others first.
func orderOf(it profile.OwnItem) int {
	if it.Meta {
		return 0
	}
	return 1
}

// ownCapabilities returns what the gateway's own items add to the capabilities.
func (t *Table) ownCapabilities() capability {
	if t.own == nil {
		return 0
	}
	var has capability
	for kind, items := range t.own.source.Items {
		if len(items) > 0 {
			has |= [call.Kinds]capability{call.Tool: hasTools, call.Prompt: hasPrompts, call.Resource: hasResources, call.Template: hasResources}[kind]
		}
	}
	return has
}

// ownsURI reports whether a URI begins like a template of the gateway's own.
func (t *Table) ownsURI(public string) bool {
	if t.own == nil {
		return false
	}
	for _, text := range t.own.source.Items[call.Template] {
		literal, _, _ := strings.Cut(wire.ValueOf(text).Get("uriTemplate").Str(), "{")
		if literal != "" && strings.HasPrefix(public, literal) {
			return true
		}
	}
	return false
}

// maxIntroduced bounds how many upstreams the introduction to tools that are not listed names.
const maxIntroduced = 100

// introduced returns the instructions with an introduction to the tools that are not listed, if
// the profile has one. An upstream whose tools are not known now, such as one that is starting, is named
// without a number: clients read instructions once.
func (v *View) introduced(instructions string) string {
	p := v.table.opts.Profile
	if p == nil || p.Introduction() == "" {
		return instructions
	}
	var names []string
	counts := make(map[string]int)
	for _, e := range v.Tools() {
		name := e.part.Upstream()
		if counts[name] == 0 && name != "" {
			names = append(names, name)
		}
		counts[name]++
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
	}
	for _, u := range v.lacking[call.Tool] {
		if counts[u.Upstream] == 0 {
			names = append(names, u.Upstream)
		}
	}
	if len(names) == 0 {
		return instructions
	}
	if len(names) > maxIntroduced {
		names = append(names[:maxIntroduced], "…")
	}
	text := strings.ReplaceAll(p.Introduction(), profile.Upstreams, strings.Join(names, ", "))
	if instructions == "" {
		return text
	}
	return text + "\n\n" + instructions
}
