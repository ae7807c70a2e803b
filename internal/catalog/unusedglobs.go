package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/glob"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// UnusedGlob is a glob of the policy or of a profile that covers nothing.
type UnusedGlob struct {
	policy.Pattern
	Suggestion string // a glob that covers something, or a name that the glob almost covers; "" for none
	Prefix     string // the prefix of public names that the glob has, though its list is of native names; "" for none
}

// Path returns the place of the glob: a list of an upstream or a profile, or a rule.
func (i UnusedGlob) Path() string {
	if i.Profile != "" {
		return "profiles." + i.Profile + "." + i.Place
	}
	if i.Upstream != "" {
		return "upstreams." + i.Upstream + "." + i.Place
	}
	return fmt.Sprintf("policy rule %q: %s", i.Rule, i.Place)
}

// String returns the place and the reason.
func (i UnusedGlob) String() string { return i.Path() + " " + i.Reason() }

// Reason says why the glob is reported.
func (i UnusedGlob) Reason() string {
	s := fmt.Sprintf("%q matches nothing", i.Text)
	if !i.OfUpstreams {
		s += " that is listed"
	}
	if i.Prefix != "" {
		s += fmt.Sprintf("; names here are without the prefix %s", i.Prefix)
	}
	if i.Suggestion != "" {
		s += fmt.Sprintf("; did you mean %q?", i.Suggestion)
	}
	return s
}

// UnusedGlobs returns the globs of a policy that cover nothing, in the order of
// [policy.Policy.Patterns]. The table must be one of no profile; lacking are the configured
// upstreams that are not in it, or whose lists in it are not the whole current ones. A glob is left
// out if it may cover something unknown: an item of an upstream that is lacking or lists nothing, or
// a resource that only a template describes.
func (t *Table) UnusedGlobs(of *policy.Policy, lacking []*namespace.Naming) []UnusedGlob {
	return t.unusedGlobs(of.Patterns(), lacking, func(string) bool { return true })
}

// UnusedGlobsOf is UnusedGlobs for the globs of a profile. They may cover items of its upstreams.
func (t *Table) UnusedGlobsOf(p *profile.Profile, lacking []*namespace.Naming) []UnusedGlob {
	return t.unusedGlobs(p.Patterns(), lacking, p.HasUpstream)
}

func (t *Table) unusedGlobs(patterns []policy.Pattern, lacking []*namespace.Naming, has func(upstream string) bool) []UnusedGlob {
	var out []UnusedGlob
	for _, p := range patterns {
		if p.CanBegin("") && strings.Trim(p.Text, "*") == "" {
			continue // it is meant to cover everything
		}
		names, open := t.coverable(&p, lacking, has)
		if open {
			continue
		}
		if !slices.ContainsFunc(names, p.Covers) {
			prefix, native := t.unprefixed(&p)
			suggestion := native
			if prefix == "" || !slices.ContainsFunc(names, glob.Compile(native).Match) {
				suggestion = cmp.Or(t.prefixed(&p, names), nearest(native, names))
			}
			out = append(out, UnusedGlob{p, suggestion, prefix})
		}
	}
	return out
}

// coverable returns the names that a glob may cover, and whether it may cover unknown names,
// too.
func (t *Table) coverable(p *policy.Pattern, lacking []*namespace.Naming, has func(upstream string) bool) (names []string, open bool) {
	native := p.Upstream != ""
	for _, s := range lacking {
		switch {
		case !has(s.Upstream()):
			continue
		case p.OfUpstreams:
			names = append(names, s.Upstream())
			continue
		}
		open = open || p.AppliesTo(s.Upstream()) && (native || p.CanBegin(namePrefixOf(s, p.Kind)))
	}
	for _, part := range t.Parts() {
		switch {
		case !has(part.Upstream()) || slices.ContainsFunc(lacking, func(s *namespace.Naming) bool { return s.Upstream() == part.Upstream() }):
		case p.OfUpstreams:
			names = append(names, part.Upstream())
		case !p.AppliesTo(part.Upstream()):
		case part.source.Down != nil || part.empty():
			open = open || native || p.CanBegin(namePrefixOf(part.naming, p.Kind))
		case p.Kind != call.Resource:
			names = t.names(names, part, p.Kind, native)
		default:
			templates := t.names(nil, part, call.Template, native)
			for _, text := range templates {
				literal, _, _ := strings.Cut(text, "{")
				open = open || p.CanBegin(literal)
			}
			listed := t.names(names, part, call.Resource, native)
			if len(listed)+len(templates) == len(names) && part.hasResources() {
				open = open || native || p.CanBegin(namePrefixOf(part.naming, p.Kind))
			}
			names = append(listed, templates...)
		}
	}
	return names, open
}

// namePrefixOf returns the beginning of the public names of a kind.
func namePrefixOf(s *namespace.Naming, kind call.Kind) string {
	switch {
	case !isURI(kind):
		return s.NamePrefix()
	case s.Prefix() == "":
		return ""
	default:
		return s.Prefix() + "+"
	}
}

// names appends the names of the items of a part: the native names of all items, or the
// public names of published and held items.
func (t *Table) names(names []string, p *Part, kind call.Kind, native bool) []string {
	if !native {
		for _, e := range t.entries[kind] {
			if e.part == p {
				names = append(names, e.Public)
			}
		}
	}
	for i, raw := range p.source.Items[kind] {
		name := wire.ValueOf(raw).Get(namespace.NameMember(kind)).Str()
		switch {
		case native:
			names = append(names, name)
		case kind == call.Tool && i < len(p.source.HeldTools) && p.source.HeldTools[i] != "":
			public, _ := p.naming.Name(name)
			names = append(names, public)
		}
	}
	return names
}

// unprefixed returns the prefix of public names with which a glob of native names begins, "" for none, and the glob without it.
func (t *Table) unprefixed(p *policy.Pattern) (prefix, native string) {
	for _, part := range t.Parts() {
		if lead := namePrefixOf(part.naming, p.Kind); p.Upstream == part.Upstream() && lead != "" {
			if native, ok := strings.CutPrefix(p.Text, lead); ok {
				return lead, native
			}
		}
	}
	return "", p.Text
}

// prefixed returns the glob with the prefix of the upstream that its own is nearest to, "" if that covers none of the names.
func (t *Table) prefixed(p *policy.Pattern, names []string) string {
	if p.Upstream != "" || p.OfUpstreams {
		return ""
	}
	var written string
	var prefixes []string
	for _, part := range t.Parts() {
		prefix, lead := part.naming.Prefix(), namePrefixOf(part.naming, p.Kind)
		if head, _, found := strings.Cut(p.Text, strings.TrimPrefix(lead, prefix)); prefix != "" && found && p.AppliesTo(part.Upstream()) {
			written, prefixes = head, append(prefixes, prefix)
		}
	}
	near := plaintext.Nearest(written, prefixes)
	if near == "" || near == written {
		return ""
	}
	text := near + strings.TrimPrefix(p.Text, written)
	if !slices.ContainsFunc(names, glob.Compile(text).Match) {
		return ""
	}
	return text
}

// nearest returns the name that a glob, with asterisks only at its ends, covers except for a
// few characters.
func nearest(text string, names []string) string {
	core := strings.Trim(text, "*")
	if core == "" || strings.Contains(core, "*") || len(core) > maxSimilarQuery {
		return ""
	}
	head, tail := strings.HasPrefix(text, "*"), strings.HasSuffix(text, "*")
	most := min(maxDistance, max(1, len(core)/lettersEdit))
	best, found := most+1, ""
	for i, name := range names {
		if i == maxCompared {
			break
		}
		for n := max(1, len(core)-1); n <= len(core)+1; n++ {
			piece := name
			switch {
			case n > len(name):
				continue
			case tail && !head:
				piece = name[:n]
			case head && !tail:
				piece = name[len(name)-n:]
			}
			if d := plaintext.EditDistance(strings.ToLower(core), strings.ToLower(piece), maxDistance); cmp.Less(d, best) {
				best, found = d, name
			}
		}
	}
	return found
}
