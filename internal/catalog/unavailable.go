package catalog

import (
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
)

// Unavailable is an upstream whose items are missing in a list, or may be outdated because the
// upstream does not answer the list.
type Unavailable struct {
	Upstream string
	Since    time.Time
	Reason   string
	Starting bool   // its first attempt to connect has not ended
	Detail   string // see [Down]
}

// Unavailable returns the upstreams that are down and that the caller may know. The caller
// of the method must not change the slice.
func (v *View) Unavailable() []Unavailable { return v.unavailable }

// Starting reports whether the first attempt to connect to an upstream that the caller may
// know is still running.
func (v *View) Starting() bool {
	return slices.ContainsFunc(v.unavailable, func(u Unavailable) bool { return u.Starting })
}

// UnavailableFor returns the upstreams to which a name that did not resolve may belong: they
// are down or do not answer the list, and their items are unknown. If there are none, the name is unknown.
func (v *View) UnavailableFor(kind call.Kind, public string) []Unavailable {
	var out []Unavailable
	for _, p := range v.parts {
		if _, ok := v.presume(kind, public, p); ok {
			out = append(out, p.unavailable(p.unknown(kind)))
		}
	}
	return out
}

// ResolveUnavailable returns the target of a name at an upstream that UnavailableFor
// returns, and false for other upstreams. The target does not reflect the configuration
// of the item, which may be renamed, hidden or held back: use it to ask the caller
// something, not for calls.
func (v *View) ResolveUnavailable(kind call.Kind, public, upstream string) (Target, bool) {
	p := v.Part(upstream)
	if p == nil {
		return Target{}, false
	}
	return v.presume(kind, public, p)
}

// UnknownAt returns the upstream to which a public name that does not resolve may belong and of whose items of this kind
// nothing is known now, "" for none. An upstream of which the profile cannot select the item is none. An upstream whose prefix
// the name lacks, as short names do, is one only if the caller might use the item. refused says that the caller may not use
// the item, whatever its definition is. Like RefusalOf it is for the audit and for operators: it does not ask which upstreams the
// caller may know.
func (v *View) UnknownAt(kind call.Kind, public string) (upstream string, refused bool) {
	for _, p := range v.table.parts {
		native, ordinary, ok := v.nameAt(kind, public, p)
		if !ok || p.unknown(kind) == nil || v.elsewhere(kind, p, public) {
			continue
		}
		it := policy.Item{Kind: kind, Upstream: p.Upstream(), Public: ordinary, Native: native}
		if !v.table.opts.Profile.MaySelect(it) {
			continue
		}
		usable := v.rights.ForItem(it).MayBeVisible()
		switch {
		case ordinary == public: // the name has the prefix
			return p.Upstream(), !usable
		case usable && upstream == "":
			upstream = p.Upstream()
		}
	}
	return upstream, false
}

func (v *View) presume(kind call.Kind, public string, p *Part) (Target, bool) {
	native, ordinary, ok := v.nameAt(kind, public, p)
	if !ok || p.unknown(kind) == nil {
		return Target{}, false
	}
	j := v.rights.ForItem(policy.Item{Kind: kind, Upstream: p.Upstream(), Public: ordinary, Native: native})
	if !j.Listed().Visible() || v.elsewhere(kind, p, public) {
		return Target{}, false
	}
	return Target{Part: p, Kind: kind, Public: public, Native: native, ordinary: ordinary, Policy: j, Unconfirmed: true}, true
}

// nameAt returns the names that an item with a public name would have at an upstream, and false if its names are others.
func (v *View) nameAt(kind call.Kind, public string, p *Part) (native, ordinary string, ok bool) {
	native, ok = strings.CutPrefix(public, p.naming.NamePrefix())
	ordinary = public
	switch {
	case isURI(kind):
		native, ok = p.naming.NativeURI(public)
	case !ok && v.table.opts.Profile.ShortNames():
		native, ok = public, true
		ordinary, _ = p.naming.Name(native)
	}
	return native, ordinary, ok
}

// elsewhere reports whether the prefix of a URI names another part. An upstream without a
// prefix then cannot have the URI.
func (v *View) elsewhere(kind call.Kind, p *Part, public string) bool {
	if !isURI(kind) {
		return false
	}
	owner := v.owner(public)
	return owner != nil && owner != p
}
