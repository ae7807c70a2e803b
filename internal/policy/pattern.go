package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpgateway/internal/call"
)

// Pattern is one glob of a policy.
type Pattern struct {
	Upstream   string // whose allow or deny list has the pattern, "" if a rule or a profile has it
	Profile    string // whose selection has the pattern, "" if none has
	Rule, File string // of a rule
	Line       int
	Place      string // in the upstream, the profile or the rule: tools.deny[1], what.upstreams[0]
	Kind       call.Kind
	// OfUpstreams says that the pattern covers names of upstreams, not items of the kind. A
	// pattern of resources also covers templates.
	OfUpstreams bool
	Text        string

	globs globs
	rule  *rule
}

// Patterns returns all globs: those of upstreams by name, or those of a profile, then those of
// rules. The globs of a narrower policy are not among them.
func (p *Policy) Patterns() []Pattern {
	var out []Pattern
	add := func(like Pattern, g *globs, list string, compile func([]string) globs) {
		if g == nil {
			return
		}
		for i, w := range g.written {
			like.Place, like.Text = fmt.Sprintf("%s[%d]", list, i), w.String()
			like.globs = compile([]string{like.Text})
			out = append(out, like)
		}
	}
	kinds := []call.Kind{call.Tool, call.Resource, call.Prompt}
	compile := map[call.Kind]func([]string) globs{call.Tool: compileNames, call.Prompt: compileNames, call.Resource: compileURIs}
	lists := func(like Pattern, of *[call.Kinds]selection) {
		for _, kind := range kinds {
			like.Kind = kind
			add(like, &of[kind].allow, kind.Plural()+".allow", compile[kind])
			add(like, &of[kind].deny, kind.Plural()+".deny", compile[kind])
		}
	}
	if p.isOwn() { // lists of upstreams are made of tags
		if p.selected != nil {
			lists(Pattern{Profile: p.profile}, p.selected)
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(p.upstreams)) {
			lists(Pattern{Upstream: name}, p.upstreams[name])
		}
	}
	for _, r := range p.rules {
		like := Pattern{Rule: r.Name, File: r.File, Line: r.Line, rule: r}
		for _, kind := range kinds {
			like.Kind = kind
			add(like, r.kinds[kind], "what."+kind.Plural(), compile[kind])
		}
		like.OfUpstreams = true
		add(like, r.upstreams, "what.upstreams", compileNames)
	}
	return out
}

// Restricts reports whether the pattern forbids something or asks a user: if it is misspelled, more is allowed than
// was meant.
func (p *Pattern) Restricts() bool {
	if p.rule != nil {
		return p.rule.Effect != Allow
	}
	return strings.Contains(p.Place, ".deny[")
}

// AppliesTo reports whether the pattern is about items of the upstream.
func (p *Pattern) AppliesTo(upstream string) bool {
	if p.rule != nil {
		return p.rule.at(upstream)
	}
	return p.Upstream == "" || p.Upstream == upstream
}

// Covers reports whether the pattern covers a name or URI: a native one for a list of an
// upstream, otherwise an ordinary public one. It compares URIs as rules that deny do.
func (p *Pattern) Covers(name string) bool {
	return p.globs.restricts(candidateOf(name, p.globs.folded != nil))
}

// CanBegin reports whether the pattern covers a name that begins with lead.
func (p *Pattern) CanBegin(lead string) bool { return p.globs.canBegin(lead) }
