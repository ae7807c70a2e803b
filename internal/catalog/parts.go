package catalog

// Parts returns the upstreams that the caller may know, in the order of the configuration.
// The slice must not be changed.
func (v *listings) Parts() []*Part { return v.parts }

// Part returns the upstream with this name, nil if the caller may not know it.
func (v *listings) Part(upstream string) *Part {
	for _, p := range v.parts {
		if p.Upstream() == upstream {
			return p
		}
	}
	return nil
}

// Parts returns all upstreams in the order of the configuration. The slice must not be
// changed.
func (t *Table) Parts() []*Part {
	if t.own != nil {
		return t.parts[1:]
	}
	return t.parts
}
