// Package policy decides which items a principal may see and use.
//
//	caller ──Rights──▶ the rules that can concern them
//	                     └──ForItem(item)──▶ ItemPolicy: the rules that can concern this item too
//	                                         ├──Listed────▶ Decision for lists: arguments are not known
//	                                         └──Decide(request)──▶ Decision for one call
//
// The same function decides about lists and calls: a listed item can be called with some
// arguments, and an item whose every call is refused is not listed. Callers of the package have
// to make a refused item look like an absent one.
//
// The first of these that applies decides:
//
//  1. the lists of the upstream: its deny globs, then its allow globs. They select native
//     names: the name of a tool or prompt, the URI of a resource, the text of a template.
//  2. the rules that deny, then those that confirm, then those that allow;
//  3. the default.
//
// An allow glob of an upstream only narrows: an item that it covers still needs a rule or
// the default to allow it.
//
// # Rules
//
// A rule matches if its [Who], its [What] and its [Condition] match. All lists of Who have
// to match, each by one of its values. The lists of tools, resources and prompts in What are
// alternatives; its upstreams narrow all of them. A part that is not given matches
// everything. If several rules with the deciding effect match, the decision names the first.
// The obligations of all matching rules apply, also of rules that do not decide.
//
// If another upstream has the public name of an item, the item is published under another name.
// Rules that deny, confirm or count apply to the item by both names, so that the list of one
// upstream cannot exempt an item of another from its rules.
//
// An asterisk in a glob matches any run of characters (package glob).
//
// A condition that cannot be evaluated never allows: a rule that allows does not match, a
// rule that denies or confirms does. Arguments are unknown in lists; a condition whose
// outcome depends on them may hold there.
//
// A variable for another kind of item, such as tool for a resource, has no fields: reading a
// field is an evaluation error, and has() of a field is false. The same is true of the
// annotations of an unlisted resource.
//
// # URIs
//
// A listed resource is judged by the URI in the list. An unlisted one is judged only in the
// canonical spelling of its URI (package canonical); in another spelling it is refused if policy
// might refuse, confirm or count a resource of the upstream by its URI ([RuleURI]). Package
// catalog says which items are not canonical.
//
// Globs that allow compare URIs byte for byte. Globs that deny, confirm or count also match
// spellings that servers may treat as equal: they ignore case and percent-encoding, and also
// match the URI followed by a slash, a question mark or a semicolon and any text. Conditions
// compare a URI as it is written.
//
// A [Policy] and its results are immutable and safe for concurrent use. A decision without
// conditions, or with only common ones, does not allocate. The cost of a condition is bounded.
// The package is pure.
package policy
