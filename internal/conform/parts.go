package conform

import (
	"slices"

	"mcpgateway/internal/wire"
)

// part is a member of an object that is being repaired.
type part struct {
	key   wire.Raw // including its quotes
	value wire.Raw
	rule  int // -1 for none
}

// partsOf returns the members of an object.
func partsOf(v wire.Value, rules []rule) []part {
	parts := make([]part, 0, 8)
	for m := range v.Members() {
		i, other := ruleOf(rules, m)
		if other {
			i = -1
		}
		parts = append(parts, part{m.Key.Raw(), m.Value.Raw(), i})
	}
	return parts
}

// removeDuplicates removes all but the last of duplicate members.
func removeDuplicates(parts []part) []part {
	var last [32]int // the index of the last part, by rule
	for i, p := range parts {
		if p.rule >= 0 {
			last[p.rule] = i
		}
	}
	out := make([]part, 0, len(parts))
	for i, p := range parts {
		if p.rule < 0 || last[p.rule] == i {
			out = append(out, p)
		}
	}
	return out
}

func setPart(parts []part, rule int, with wire.Raw) []part {
	for i := range parts {
		if parts[i].rule != rule {
			continue
		}
		if isRemoved(with) {
			return append(parts[:i:i], parts[i+1:]...)
		}
		parts[i].value = with
		break
	}
	return parts
}

// setRenamed adds a member, in place of the first one that has an alias.
func setRenamed(parts []part, rule int, r *rule, value wire.Raw) []part {
	for i := range parts {
		for _, name := range r.aliases {
			if parts[i].rule < 0 && wire.ValueOf(parts[i].key).IsString(name) {
				parts[i] = part{wire.String(r.name), value, rule}
				return parts
			}
		}
	}
	return append(parts, part{wire.String(r.name), value, rule})
}

// moveInto moves a member into its parent, unless the parent contains it already.
func moveInto(parts []part, rule int, r *rule, at wire.Value) []part {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.rule == rule })
	if at.Kind() == 'n' {
		return parts
	}
	key := wire.String(r.parent)
	for i := range parts {
		if !wire.ValueOf(parts[i].key).IsString(r.parent) {
			continue
		}
		home := wire.ValueOf(parts[i].value)
		if home.Kind() == 'n' {
			parts[i].value = wire.SetMember(wire.Raw(`{}`), r.name, at.Raw())
			return parts
		}
		if home.Kind() == '{' && !home.Get(r.name).Exists() {
			parts[i].value = wire.SetMember(parts[i].value, r.name, at.Raw())
		}
		return parts
	}
	return append(parts, part{key, wire.SetMember(wire.Raw(`{}`), r.name, at.Raw()), -1})
}

// joinParts builds an object, nil without parts.
func joinParts(parts []part) wire.Raw {
	if parts == nil {
		return nil
	}
	size := 2
	for _, p := range parts {
		size += len(p.key) + len(p.value) + 2
	}
	out := append(make(wire.Raw, 0, size), '{')
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.key...)
		out = append(out, ':')
		out = append(out, p.value...)
	}
	return append(out, '}')
}
