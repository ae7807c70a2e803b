package catalog

// Parts returns the upstreams that may be named, in the order of the
// configuration. The caller must not change the slice.
func (v *listings) Parts() []*Part { return v.parts }

// Part returns the upstream of that name if it may be named, else nil.
func (v *listings) Part(upstream string) *Part {
	for _, p := range v.parts {
		if p.Upstream() == upstream {
			return p
		}
	}
	return nil
}

// Parts returns all upstreams, in the order of the configuration. The caller
// must not change the slice.
func (t *Table) Parts() []*Part { return t.parts }
