package catalog

import (
	"cmp"
	"fmt"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Idle is a glob of the policy that covers nothing.
type UnusedGlob struct {
	policy.Pattern
	Suggestion string // a name that it would cover but for a slip of the pen, "" for none
}

// Path says where it stands: in the list of an upstream or in a rule with a name.
func (i UnusedGlob) Path() string {
	if i.Upstream != "" {
		return "upstreams." + i.Upstream + "." + i.Place
	}
	return fmt.Sprintf("policy rule %q: %s", i.Rule, i.Place)
}

// String says where it stands, and what of it.
func (i UnusedGlob) String() string { return i.Path() + " " + i.Reason() }

// Reason says what of it.
func (i UnusedGlob) Reason() string {
	s := fmt.Sprintf("%q matches nothing", i.Text)
	if !i.OfUpstreams {
		s += " that is listed"
	}
	if i.Suggestion != "" {
		s += fmt.Sprintf("; did you mean %q?", i.Suggestion)
	}
	return s
}

// Idle returns the globs of a policy that cover nothing of what there is, in the
// order of [policy.Policy.Patterns]. It takes a table whose upstreams have all listed
// what they have; lacking are those that are configured and not in it. Nothing is said
// of a glob that may cover what is not known: an item of an upstream that lacks or lists
// nothing at all, or a resource that only a template tells of.
func (t *Table) UnusedGlobs(of *policy.Policy, lacking []*namespace.Naming) []UnusedGlob {
	var out []UnusedGlob
	for _, p := range of.Patterns() {
		if p.CanBegin("") && strings.Trim(p.Text, "*") == "" {
			continue // everything is what is meant
		}
		names, open := t.coverable(&p, lacking)
		if open {
			continue
		}
		covered := false
		for _, name := range names {
			if covered = p.Covers(name); covered {
				break
			}
		}
		if !covered {
			out = append(out, UnusedGlob{p, nearest(p.Text, names)})
		}
	}
	return out
}

// coverable returns the names that a glob is about, and whether there may be others that
// it covers.
func (t *Table) coverable(p *policy.Pattern, lacking []*namespace.Naming) (names []string, open bool) {
	for _, s := range lacking {
		if p.OfUpstreams {
			names = append(names, s.Upstream())
			continue
		}
		open = open || p.AppliesTo(s.Upstream()) && (p.Rule == "" || p.CanBegin(namePrefixOf(s, p.Kind)))
	}
	for _, part := range t.parts {
		switch {
		case p.OfUpstreams:
			names = append(names, part.Upstream())
		case !p.AppliesTo(part.Upstream()):
		case part.source.Down != nil || part.empty():
			open = open || p.Rule == "" || p.CanBegin(namePrefixOf(part.naming, p.Kind))
		case p.Kind != call.Resource:
			names = t.names(names, part, p.Kind, p.Rule == "")
		default:
			templates := t.names(nil, part, call.Template, p.Rule == "")
			for _, text := range templates {
				literal, _, _ := strings.Cut(text, "{")
				open = open || p.CanBegin(literal)
			}
			listed := t.names(names, part, call.Resource, p.Rule == "")
			if len(listed)+len(templates) == len(names) && part.hasResources() {
				open = open || p.Rule == "" || p.CanBegin(namePrefixOf(part.naming, p.Kind))
			}
			names = append(listed, templates...)
		}
	}
	return names, open
}

// leadOf is what public names of a space begin with.
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

// names appends the names of what a part has: native ones of all that its upstream
// lists, or the public ones of what is published, or would be once its definition is accepted.
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

// nearest returns the name that a glob with asterisks at its ends, or none, covers but
// for a few characters.
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
