package catalog

import (
	"iter"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
)

// pattern is a template that URIs are matched with.
type pattern struct {
	entry    *Entry
	naming   *namespace.Naming // the naming that the template was published with
	lead     string            // what every expansion begins with
	template *uritemplate.Template
	vars     int
}

// rank is 0 for templates of an upstream without a prefix that clash, and so stand
// under its name, else 1.
func (p *pattern) rank() int {
	if p.naming.Prefix() != "" && !namespace.IsWeb(p.entry.Native) {
		return 0
	}
	return 1
}

// maxMatching bounds what one URI may cost to match with templates, in bytes
// times variables, some tens of milliseconds at worst. Templates come from
// upstreams and URIs from clients, so both may be made to be slow together.
const maxMatching = 1 << 19

// matching iterates over the patterns that can expand to uri, in their order.
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

// newPattern returns the pattern of a template under its public name or its
// native one, and false where nothing can be matched with it within bounds.
func newPattern(e *Entry, text string, space *namespace.Naming) (pattern, bool) {
	if conform.TemplateError(e.Native) != "" {
		return pattern{}, false // nothing was checked
	}
	template, err := uritemplate.New(text)
	if err != nil {
		return pattern{}, false // the native text was one, and a prefix has plain characters only
	}
	lead, _, _ := strings.Cut(text, "{")
	return pattern{e, space, lead, template, conform.TemplateVars(text)}, true
}

// addPattern makes a template's URIs resolvable where no prefix shows whose
// they are.
func (t *Table) addPattern(e *Entry, space *namespace.Naming) {
	if p, ok := newPattern(e, e.Public, space); ok {
		t.patterns = append(t.patterns, p)
	}
}

// natives returns the templates of a part under their native names. They are
// compiled when something is first matched with any.
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
