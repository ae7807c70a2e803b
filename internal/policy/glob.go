package policy

import (
	"slices"
	"strings"
)

// glob is a pattern cut at its asterisks. One without any has a single part.
type glob struct{ parts []string }

func compile(pattern string) glob { return glob{strings.Split(pattern, "*")} }

// match reports whether the pattern covers the whole of s. Taking the leftmost
// place for every part is enough, since only asterisks stand between them; so
// the time is linear in s for each part, whatever the pattern.
func (g glob) match(s string) bool {
	first, last := g.parts[0], len(g.parts)-1
	if last == 0 {
		return s == first
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for _, part := range g.parts[1:last] {
		_, after, found := strings.Cut(s, part)
		if !found {
			return false
		}
		s = after
	}
	return strings.HasSuffix(s, g.parts[last])
}

// all reports whether the pattern covers everything.
func (g glob) all() bool { return strings.Join(g.parts, "") == "" && len(g.parts) > 1 }

// canBegin reports whether the pattern covers anything that begins with lead.
func (g glob) canBegin(lead string) bool {
	first := g.parts[0]
	if len(g.parts) == 1 {
		return strings.HasPrefix(first, lead)
	}
	return strings.HasPrefix(first, lead) || strings.HasPrefix(lead, first)
}

// globs are patterns of one kind of name, in all their forms: those of URIs are
// kept as they are written, and in the forms that [Spellings] may have.
type globs struct {
	written []glob
	forms   []glob // beside the written ones
	folded  []glob // what restricts matches folded text by, beside the others
}

func compileNames(patterns []string) globs {
	var g globs
	for _, p := range patterns {
		g.written = append(g.written, compile(p))
	}
	return g
}

func compileURIs(patterns []string) globs {
	g := compileNames(patterns)
	for _, w := range g.written {
		last := w
		for level := range maxLevels + 1 {
			form := glob{make([]string, len(w.parts))}
			for i, part := range last.parts {
				if form.parts[i] = decode(part); level == 0 {
					form.parts[i] = plainText(part, i == 0, len(w.parts) == 1)
				}
			}
			if !slices.Equal(form.parts, last.parts) {
				g.forms = append(g.forms, form)
			}
			last = form
		}
	}
	for _, w := range slices.Concat(g.written, g.forms) {
		form := glob{make([]string, len(w.parts))}
		for i, part := range w.parts {
			form.parts[i] = fold(part)
		}
		g.folded = append(g.folded, form)
		// What is at a slash is there without it, too.
		if last := len(form.parts) - 1; strings.HasSuffix(form.parts[last], "/") && strings.Trim(form.parts[last], "/") != "" {
			bare := glob{slices.Clone(form.parts)}
			bare.parts[last] = strings.TrimRight(bare.parts[last], "/")
			g.folded = append(g.folded, bare)
		}
	}
	return g
}

// restrict reports whether what is refused or to be confirmed by these patterns
// covers s: it does also where s or the pattern is written in another case.
func (g *globs) restrict(s string) bool {
	if g.match(s) {
		return true
	}
	if len(g.folded) == 0 {
		return false
	}
	s = fold(s)
	return slices.ContainsFunc(g.folded, func(w glob) bool { return w.match(s) })
}

func (g *globs) match(s string) bool {
	is := func(w glob) bool { return w.match(s) }
	return slices.ContainsFunc(g.written, is) || slices.ContainsFunc(g.forms, is)
}

// restrictAny reports whether one of the spellings is restricted.
func (g *globs) restrictAny(spellings []string) bool {
	for _, s := range spellings {
		if g.restrict(s) {
			return true
		}
	}
	return false
}

// each reports whether every one of the spellings is covered.
func (g *globs) each(spellings []string) bool {
	for _, s := range spellings {
		if !g.match(s) {
			return false
		}
	}
	return true
}

func (g *globs) canBegin(lead string) bool {
	for _, w := range g.written {
		if w.canBegin(lead) {
			return true
		}
	}
	return false
}

func (g *globs) all() bool {
	for _, w := range g.written {
		if w.all() {
			return true
		}
	}
	return false
}
