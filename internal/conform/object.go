package conform

import (
	"bytes"
	"strings"

	"mcpgateway/internal/wire"
)

// rule describes one member of an object.
type rule struct {
	name string
	// required says that the object must have the member.
	required bool
	// section is the section of the specification that defines the member.
	section string
	// check checks the value. It returns the repaired value, nil to keep the value, or
	// removed to remove the member.
	check func(w *walk, v wire.Value) wire.Raw
	// defaultValue returns the value for a required member that is missing, nil if there
	// is no right one, and the message of the violation, "" for the usual one.
	defaultValue func(w *walk, obj wire.Value) (value wire.Raw, words string)
	// aliases are wrong names under which upstreams send the member.
	aliases []string
	// parent is the member, an object, that should contain this one.
	parent string
	// isURI says that the value is a URI, which is not rewritten under an alias or
	// outside of its parent.
	isURI bool
	// nullable says that null is a valid value.
	nullable bool
}

// removed is the repaired value of a member that is removed.
var removed = wire.Raw{}

func isRemoved(raw wire.Raw) bool { return raw != nil && len(raw) == 0 }

// ruleOf returns the index of the rule for a member, -1 for none, and whether the name of
// the member is an alias.
func ruleOf(rules []rule, m wire.Member) (i int, other bool) {
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

// checkedMember is a member with a rule.
type checkedMember struct {
	value wire.Value
	rule  int
}

// isRepeated reports whether a later member has the same rule as the first one.
func isRepeated(members []checkedMember) bool {
	for _, m := range members[1:] {
		if m.rule == members[0].rule {
			return true
		}
	}
	return false
}

// checkObjectOr is object for values that the caller replaces as a whole if they
// cannot be repaired. In that case ok is false, and the violations count as repaired.
func (w *walk) checkObjectOr(v wire.Value, rules []rule) (fix wire.Raw, ok bool) {
	before := w.unrepaired
	fix = w.checkObject(v, rules)
	if w.unrepaired > before {
		w.unrepaired = before
		w.markRepaired()
		return nil, false
	}
	return fix, true
}

// markRepaired marks the violations at and below the current value as repaired.
func (w *walk) markRepaired() {
	for i := range w.violations {
		v := &w.violations[i]
		v.Repaired = v.Repaired || w.repair && v.Kind != InvalidURI && v.Kind != InvalidMeta && strings.HasPrefix(v.Path, w.path(""))
	}
}

// memberSets are sets of rules, one bit for each rule, by the members of an object.
type memberSets struct {
	present   uint32
	aliased   uint32 // a member has an alias
	duplicate uint32 // a member occurs twice
	misplaced uint32 // a member must be in another object
}

// classify returns the members with a rule under their own name, appended to members, and
// the sets of rules.
func classify(v wire.Value, rules []rule, members []checkedMember) ([]checkedMember, memberSets) {
	var sets memberSets
	for m := range v.Members() {
		i, alias := ruleOf(rules, m)
		if i < 0 {
			continue
		}
		bit := uint32(1) << i
		switch {
		case alias:
			sets.aliased |= bit
			continue
		case rules[i].parent != "":
			sets.misplaced |= bit
			continue
		case sets.present&bit != 0:
			sets.duplicate |= bit
		}
		sets.present |= bit
		members = append(members, checkedMember{m.Value, i})
	}
	return members, sets
}

// checkObject checks an object against rules. It returns the repaired object, nil if nothing
// changes.
func (w *walk) checkObject(v wire.Value, rules []rule) wire.Raw {
	var few [8]checkedMember
	members, sets := classify(v, rules, few[:0])
	if sets.misplaced != 0 {
		if moved := w.moveMisplaced(v, rules, sets.misplaced); moved != nil {
			if fix := w.checkObject(wire.ValueOf(moved), rules); fix != nil {
				return fix
			}
			return moved
		}
	}
	var parts []part // set at the first change
	if sets.duplicate != 0 {
		parts = w.duplicates(v, rules, sets.duplicate)
	}
	for n, m := range members {
		if sets.duplicate&(1<<m.rule) != 0 && isRepeated(members[n:]) {
			continue
		}
		fix := w.checkMember(&rules[m.rule], m.value)
		if fix == nil {
			continue
		}
		if isRemoved(fix) {
			sets.present &^= 1 << m.rule
		}
		if w.repair {
			if parts == nil {
				parts = partsOf(v, rules)
			}
			parts = setPart(parts, m.rule, fix)
		}
	}
	return joinParts(w.fillAbsent(v, rules, sets, parts))
}

// duplicates reports duplicate members. It returns the members without duplicates, nil if
// nothing is repaired.
func (w *walk) duplicates(v wire.Value, rules []rule, duplicate uint32) []part {
	for i := range rules {
		if duplicate&(1<<i) != 0 {
			w.reportMember(rules[i].name, DuplicateMember, secJSON, true, "occurs twice; most clients read the last one, some the first")
		}
	}
	if !w.repair {
		return nil
	}
	return removeDuplicates(partsOf(v, rules))
}

// fillAbsent looks for absent members under their aliases, and fills required ones. It
// returns the changed parts.
func (w *walk) fillAbsent(v wire.Value, rules []rule, sets memberSets, parts []part) []part {
	for i := range rules {
		bit := uint32(1) << i
		aliased := sets.aliased&bit != 0
		if sets.present&bit != 0 || !aliased && !rules[i].required || hasMisplacedPart(rules, i, sets.misplaced) {
			continue
		}
		var raw wire.Raw
		if aliased {
			raw = w.rename(v, &rules[i])
		}
		if raw == nil && rules[i].required {
			raw = w.fillMissing(v, &rules[i])
		}
		if raw != nil && w.repair {
			if parts == nil {
				parts = partsOf(v, rules)
			}
			parts = setRenamed(parts, i, &rules[i], raw)
		}
	}
	return parts
}

// hasMisplacedPart reports whether a misplaced member must be in the member of rule i.
func hasMisplacedPart(rules []rule, i int, misplaced uint32) bool {
	for j := range rules {
		if misplaced&(1<<j) != 0 && rules[j].parent == rules[i].name {
			return true
		}
	}
	return false
}

// moveMisplaced moves members into their parents. It returns the repaired object, nil if
// nothing changes.
func (w *walk) moveMisplaced(v wire.Value, rules []rule, misplaced uint32) wire.Raw {
	var parts []part
	if w.repair {
		parts = partsOf(v, rules)
	}
	for i := range rules {
		if misplaced&(1<<i) == 0 {
			continue
		}
		r := &rules[i]
		w.reportMember(r.name, Misplaced, r.section, true, "is misplaced; it must be in "+r.parent)
		if w.repair {
			parts = moveInto(parts, i, r, w.publicValue(r, v.Get(r.name)))
		}
	}
	return joinParts(parts)
}

// publicValue returns the value of a misplaced or renamed member, with a public URI.
func (w *walk) publicValue(r *rule, v wire.Value) wire.Value {
	if native, ok := v.Text(); ok && r.isURI {
		return wire.ValueOf(wire.String(w.checker.public(native)))
	}
	return v
}

// fillMissing reports a missing required member. It returns its default value, nil if there is
// none.
func (w *walk) fillMissing(v wire.Value, r *rule) wire.Raw {
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

// checkMember checks the value of one member.
func (w *walk) checkMember(r *rule, v wire.Value) wire.Raw {
	switch {
	case v.Kind() == 'n' && !r.nullable:
		if r.required {
			return removed // a required member counts as missing
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

// rename uses a member with an alias in place of the missing one, if its value is valid.
// It returns the value.
func (w *walk) rename(v wire.Value, r *rule) wire.Raw {
	for _, name := range r.aliases {
		at := v.Get(name)
		if !at.Exists() || at.Kind() == 'n' {
			continue
		}
		w.reportMember(name, Misplaced, r.section, true, "is not a member of the specification; it must be "+r.name)
		at = w.publicValue(r, at)
		fix := w.checkMember(r, at)
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

// checkArray checks every element of an array. It returns the repaired array, nil if nothing
// changes. check may return several elements, with commas between them.
func (w *walk) checkArray(v wire.Value, check func(w *walk, el wire.Value) wire.Raw) wire.Raw {
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
