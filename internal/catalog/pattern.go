package catalog

import (
	"iter"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
)

// pattern matches URIs with a template.
type pattern struct {
	entry    *Entry
	naming   *namespace.Naming // that published the template
	lead     string            // the beginning of every expansion
	template *uritemplate.Template
	vars     int
}

// rank is 0 for clashing templates of an upstream without a prefix, which are published under
// its name, and 1 for others.
func (p *pattern) rank() int {
	if p.naming.Prefix() != "" && !namespace.IsWeb(p.entry.Native) {
		return 0
	}
	return 1
}

// maxMatching bounds the cost of matching one URI with templates, in bytes times variables.
// Both may be hostile: templates come from upstreams and URIs from clients.
const maxMatching = 1 << 19

// matching iterates over the patterns that can expand to uri, in order.
func matching(patterns []pattern, uri string) iter.Seq[pattern] {
	return func(yield func(pattern) bool) {
		cost := 0
		for _, p := range patterns {
			if !strings.HasPrefix(uri, p.lead) {
				continue
			}
			if cost += len(uri) * (p.vars + 1); cost > maxMatching {
				return
			}
			if p.template.Regexp().MatchString(uri) && !yield(p) {
				return
			}
		}
	}
}

// newPattern returns the pattern of a template under its public or its native name. It
// returns false if the template is invalid.
func newPattern(e *Entry, text string, space *namespace.Naming) (pattern, bool) {
	if conform.TemplateError(e.Native) != "" {
		return pattern{}, false // conformance was not checked
	}
	template, err := uritemplate.New(text)
	if err != nil {
		return pattern{}, false // impossible: the native text is a template, and the prefix is plain
	}
	lead, _, _ := strings.Cut(text, "{")
	return pattern{e, space, lead, template, conform.TemplateVars(text)}, true
}

// addPattern makes URIs of a template without a prefix resolvable.
func (t *Table) addPattern(e *Entry, space *namespace.Naming) {
	if p, ok := newPattern(e, e.Public, space); ok {
		t.patterns = append(t.patterns, p)
	}
}

// natives returns the templates of a part under their native names. They are compiled at the
// first use.
func (t *Table) natives(of *Part) []pattern {
	t.nativeOnce.Do(func() {
		t.native = make(map[*Part][]pattern)
		for _, e := range t.entries[call.Template] {
			if p, ok := newPattern(e, e.Native, e.part.naming); ok {
				t.native[e.part] = append(t.native[e.part], p)
			}
		}
	})
	return t.native[of]
}
