package namespace

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// Naming makes the public names and URIs of one upstream. It is immutable.
type Naming struct {
	upstream   string
	prefix     string  // "" leaves names and URIs unchanged
	namePrefix string  // of public names: prefix and separator, or ""
	uiPrefix   string  // of public ui: URIs
	fallback   *Naming // names items that clash; nil with a prefix

	// Native URIs that are published under another URI than the rule makes, and the way back.
	// Both are usually nil.
	renamed map[string]string
	origin  map[string]string
}

var (
	upstreamForm  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	separatorForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,4}$`)
)

// New returns the naming of an upstream. The prefix may be empty; otherwise it has the form
// of an upstream's name. The separator must not occur in the prefix, nor overlap its end:
// two upstreams could make the same name.
func New(upstream, prefix, separator string) (*Naming, error) {
	switch {
	case !upstreamForm.MatchString(upstream):
		return nil, fmt.Errorf("upstream name %q: must begin with a lower-case letter and have at most 32 of a-z 0-9 -", upstream)
	case prefix != "" && !upstreamForm.MatchString(prefix):
		return nil, fmt.Errorf("prefix %q of upstream %s: must be empty, or begin with a lower-case letter and have at most 32 of a-z 0-9 -", prefix, upstream)
	case !separatorForm.MatchString(separator):
		return nil, fmt.Errorf("separator %q: must be 1 to 4 of A-Z a-z 0-9 _ -", separator)
	case prefix != "" && strings.Index(prefix+separator, separator) != len(prefix):
		return nil, fmt.Errorf("prefix %q of upstream %s: cannot be told from what follows, with the separator %q", prefix, upstream, separator)
	}
	s := &Naming{upstream: upstream, prefix: prefix, uiPrefix: uiRoot + upstream}
	if prefix != "" {
		s.namePrefix = prefix + separator
		return s, nil
	}
	s.fallback = &Naming{upstream: upstream, prefix: upstream, namePrefix: upstream + separator, uiPrefix: s.uiPrefix}
	return s, nil
}

// own is the naming of the gateway's own items.
var own = &Naming{}

// Own returns the naming of the gateway's own items: it has no upstream, and leaves names and
// URIs unchanged.
func Own() *Naming { return own }

// Upstream returns the upstream's name.
func (s *Naming) Upstream() string { return s.upstream }

// Prefix returns the prefix, "" for none.
func (s *Naming) Prefix() string { return s.prefix }

// NamePrefix returns the beginning of plain public names of tools and prompts: the prefix
// and the separator, or "".
func (s *Naming) NamePrefix() string { return s.namePrefix }

// Fallback returns the naming for items that clash. Without a prefix it is the naming with
// the upstream's name as prefix, otherwise it is s itself.
func (s *Naming) Fallback() *Naming {
	if s.fallback != nil {
		return s.fallback
	}
	return s
}

// WithRenamed returns a naming that publishes the native URIs and templates in the keys of
// uris as the values, and all others as s does.
func (s *Naming) WithRenamed(uris map[string]string) *Naming {
	if len(uris) == 0 {
		return s
	}
	c := *s
	c.renamed = maps.Clone(uris)
	c.origin = make(map[string]string, len(uris))
	for native, public := range uris {
		c.origin[public] = native
	}
	return &c
}
