package catalog

import (
	"cmp"
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/canonical"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Target is the item to which a public name leads.
type Target struct {
	Part   *Part
	Kind   call.Kind // Resource for a URI that is not the text of a template, also for a Template
	Public string
	Native string
	Entry  *Entry // nil for an unlisted URI
	// Policy is the policy for the item.
	Policy *policy.ItemPolicy
	// misspelledAt is the part to which a URI would lead if it were canonical. It is set only
	// for a URI that does not resolve, and only if the caller may know the part.
	misspelledAt *Part
	ordinary     string // the public name without a profile, if it differs and there is no Entry
	// Unconfirmed says that the catalog of the upstream is unknown, so there may be no such
	// item, or the configuration may hide or rename it: see [View.ResolveUnavailable].
	Unconfirmed bool
}

// PolicyItem returns the target for policy.
func (t Target) PolicyItem() policy.Item {
	if t.Entry != nil {
		it := t.Entry.policyItem()
		it.Kind = t.Kind
		return it
	}
	return unlistedItem(t.Part, t.Public, t.Native)
}

// Asked returns the resource of the call, whose URI results repeat as the client wrote it.
func (t Target) Asked() namespace.Asked {
	if t.Kind != call.Resource {
		return namespace.Asked{}
	}
	return namespace.Asked{Native: t.Native, Public: t.Public}
}

// Misspelling says why the URI of SpellingError is not canonical, without any part of it. It is ""
// for another target.
func (t Target) Misspelling() string {
	if t.misspelledAt == nil {
		return ""
	}
	return cmp.Or(canonical.Violation(t.Native), "its prefix is not the usual one")
}

// SpellingError returns the error for a URI that policy refuses because it is neither
// listed nor canonical, nil for another target. The error does not depend on whether there
// is such a resource.
func (t Target) SpellingError() *wire.Error {
	p := t.misspelledAt
	if p == nil {
		return nil
	}
	why := t.Misspelling()
	advice := "it has no canonical spelling"
	if native, ok := canonical.URI(t.Native); ok {
		advice = fmt.Sprintf("use %q", p.naming.PublicURI(native))
	}
	return wire.Errorf(wire.CodeInvalidParams, "the URI of an unlisted resource must be canonical, and this one is not: %s; %s", why, advice)
}

// ResultChecker returns the checker for results of the target: the answer of its
// upstream to a request of the method, under public names. rev is the revision
// that the upstream answered in, "" for the one that it is known to speak.
func (v *View) ResultChecker(t Target, method string, rev wire.Revision) conform.ResultChecker {
	s := conform.ResultChecker{
		Mode: t.Part.Rules().Conformance, Revision: cmp.Or(rev, t.Part.Revision()), Method: method, Resources: v, Space: t.Part.Naming(), Asked: t.Asked(),
	}
	if t.Entry != nil {
		s.Output = t.Entry.Output
	}
	return s
}
