package conform

import (
	"bytes"
	"strings"

	"mcpgateway/internal/wire"
)

// rule is what is known of one member of an object.
type rule struct {
	name string
	// need says that the object must have it.
	required bool
	// section says where the specification does.
	section string
	// check checks the value and returns what mends it: nil where nothing is to
	// be changed, gone where the member should not be there.
	check func(w *walk, v wire.Value) wire.Raw
	// fill returns the value of a required member that is missing, nil when
	// there is no one answer, and what words say of it.
	defaultValue func(w *walk, obj wire.Value) (value wire.Raw, words string)
	// other are names under which upstreams send it by mistake.
	aliases []string
	// into is the member, an object, that this one belongs into: it should not
	// stand here at all.
	parent string
	// public says that it is a URI, which nobody has rewritten where it stands.
	isURI bool
	// keep says that null is a value.
	nullable bool
}

// gone stands for "without this".
var removed = wire.Raw{}

func isRemoved(raw wire.Raw) bool { return raw != nil && len(raw) == 0 }

// find returns the index of the rule for a member, and whether the member stands
// under another name than its own; -1 when there is none.
func find(rules []rule, m wire.Member) (i int, other bool) {
	key := m.Key.Raw()
	key = key[1 : len(key)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key = wire.Raw(m.Key.Str())
	}
	for i := range rules {
		if string(key) == rules[i].name {
			return i, false
		}
	}
	for i := range rules {
		for _, name := range rules[i].aliases {
			if string(key) == name {
				return i, true
			}
		}
	}
	return -1, false
}

// known is a member that there is a rule for.
type known struct {
	value wire.Value
	rule  int
}

// isEarlier reports whether the first of the members stands again among the
// others.
func isEarlier(members []known) bool {
	for _, m := range members[1:] {
		if m.rule == members[0].rule {
			return true
		}
	}
	return false
}

// objectOrElse is object for what has another answer where it cannot be mended: ok is
// false then, and the faults count as mended.
func (w *walk) objectOrFallback(v wire.Value, rules []rule) (fix wire.Raw, ok bool) {
	stuck := w.unrepaired
	fix = w.object(v, rules)
	if w.unrepaired > stuck {
		w.unrepaired = stuck
		w.markRepaired()
		return nil, false
	}
	return fix, true
}

// settled notes that what was found last has an answer after all.
func (w *walk) markRepaired() {
	for i := range w.violations {
		f := &w.violations[i]
		f.Repaired = f.Repaired || w.repair && f.Kind != InvalidURI && f.Kind != InvalidMeta && strings.HasPrefix(f.Path, w.path(""))
	}
}

// object holds an object against rules and returns what mends it, nil when
// nothing is to be changed.
func (w *walk) object(v wire.Value, rules []rule) wire.Raw {
	var seen, under, twice, stray uint32 // rules: met, met under another name, met again, met in the wrong place
	var few [8]known
	members := few[:0]
	for m := range v.Members() {
		i, other := find(rules, m)
		if i < 0 {
			continue
		}
		bit := uint32(1) << i
		switch {
		case other:
			under |= bit
			continue
		case rules[i].parent != "":
			stray |= bit
			continue
		case seen&bit != 0:
			twice |= bit
		}
		seen |= bit
		members = append(members, known{m.Value, i})
	}
	if stray != 0 {
		if home := w.moveMisplaced(v, rules, stray); home != nil {
			if fix := w.object(wire.ValueOf(home), rules); fix != nil {
				return fix
			}
			return home
		}
	}
	var parts []part // made when there is something to change
	if twice != 0 {
		for i := range rules {
			if twice&(1<<i) != 0 {
				w.reportMember(rules[i].name, DuplicateMember, secJSON, true, "occurs twice; most clients read the last one, some the first")
			}
		}
		if w.repair {
			parts = lastOfEach(partsOf(v, rules))
		}
	}
	for n, m := range members {
		if twice&(1<<m.rule) != 0 && isEarlier(members[n:]) {
			continue
		}
		fix := w.member(&rules[m.rule], m.value)
		if fix == nil {
			continue
		}
		if isRemoved(fix) {
			seen &^= 1 << m.rule
		}
		if w.repair {
			if parts == nil {
				parts = partsOf(v, rules)
			}
			parts = replace(parts, m.rule, fix)
		}
	}
	for i := range rules {
		bit := uint32(1) << i
		if seen&bit != 0 || under&bit == 0 && !rules[i].required || comesOf(rules, i, stray) {
			continue
		}
		raw := wire.Raw(nil)
		if under&bit != 0 {
			raw = w.rename(v, &rules[i])
		}
		if raw == nil && rules[i].required {
			raw = w.filled(v, &rules[i])
		}
		if raw != nil && w.repair {
			if parts == nil {
				parts = partsOf(v, rules)
			}
			parts = renamed(parts, i, &rules[i], raw)
		}
	}
	return join(parts)
}

// comesOf reports whether members that stand in the wrong place make up the one
// of a rule.
func comesOf(rules []rule, i int, stray uint32) bool {
	for j := range rules {
		if stray&(1<<j) != 0 && rules[j].parent == rules[i].name {
			return true
		}
	}
	return false
}

// bringHome moves members to the objects that they belong into. It returns the
// object that comes of it, nil when nothing is to be mended.
func (w *walk) moveMisplaced(v wire.Value, rules []rule, stray uint32) wire.Raw {
	var parts []part
	if w.repair {
		parts = partsOf(v, rules)
	}
	for i := range rules {
		if stray&(1<<i) == 0 {
			continue
		}
		r := &rules[i]
		w.reportMember(r.name, Misplaced, r.section, true, "stands in the wrong place; it belongs into "+r.parent)
		if w.repair {
			parts = moveInto(parts, i, r, w.published(r, v.Get(r.name)))
		}
	}
	return join(parts)
}

// published returns the value of a member as it is to stand in its own place.
func (w *walk) published(r *rule, v wire.Value) wire.Value {
	if native, ok := v.Text(); ok && r.isURI {
		return wire.ValueOf(wire.String(w.checker.public(native)))
	}
	return v
}

// filled notes a required member that is missing, and returns what stands for
// it, nil when there is no answer.
func (w *walk) filled(v wire.Value, r *rule) wire.Raw {
	words := "is missing; it is required"
	var value wire.Raw
	if r.defaultValue != nil {
		var said string
		if value, said = r.defaultValue(w, v); said != "" {
			words = said
		}
	}
	w.reportMember(r.name, Missing, r.section, value != nil, words)
	if value == nil {
		w.unrepaired++
	}
	return value
}

// member checks the value of one member.
func (w *walk) member(r *rule, v wire.Value) wire.Raw {
	switch {
	case v.Kind() == 'n' && !r.nullable:
		if r.required {
			return removed // and so it is missing
		}
		w.reportMember(r.name, NullMember, r.section, true, "is null; an optional member without a value must be left out")
		return removed
	case r.check == nil:
		return nil
	}
	w.push(r.name, 0)
	defer w.pop()
	return r.check(w, v)
}

// rename takes a member that stands under another name for the one that is
// missing, if its value fits. It returns the value.
func (w *walk) rename(v wire.Value, r *rule) wire.Raw {
	for _, name := range r.aliases {
		at := v.Get(name)
		if !at.Exists() || at.Kind() == 'n' {
			continue
		}
		w.reportMember(name, Misplaced, r.section, true, "is not a member of the specification; it must be "+r.name)
		at = w.published(r, at)
		fix := w.member(r, at)
		switch {
		case isRemoved(fix):
			return nil
		case fix != nil:
			return fix
		default:
			return at.Raw()
		}
	}
	return nil
}

// array checks every element of an array and returns what mends it, nil when
// nothing is to be changed. What check returns for an element may be several,
// with commas between them, or gone.
func (w *walk) array(v wire.Value, check func(w *walk, el wire.Value) wire.Raw) wire.Raw {
	var fixes map[int]wire.Raw
	i := 0
	for el := range v.Elements() {
		w.push("", i)
		fix := check(w, el)
		w.pop()
		if fix != nil && w.repair {
			if fixes == nil {
				fixes = map[int]wire.Raw{}
			}
			fixes[i] = fix
		}
		i++
	}
	if fixes == nil {
		return nil
	}
	out := wire.Raw{'['}
	i = 0
	for el := range v.Elements() {
		raw, changed := fixes[i]
		if !changed {
			raw = el.Raw()
		}
		i++
		if len(raw) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, ']')
}
