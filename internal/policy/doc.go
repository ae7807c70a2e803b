// Package policy decides who may see and use which item.
//
//	caller ──Rights──▶ the rules that can concern them
//	                     └──ForItem(item)──▶ ItemPolicy: the rules that can concern this item too
//	                                         ├──Listed────▶ Decision for lists: arguments are not known
//	                                         └──Decide(request)──▶ Decision for one call
//
// One function serves lists and calls: what a list shows can be called with
// some arguments, and what every call refuses is not listed. That a refused item
// and an absent one look the same is the caller's part.
//
// These decide, the first that has something to say:
//
//  1. what an upstream is let through at all: its deny globs, which win, and
//     its allow globs, of native names (a resource's URI, a template's text; a
//     URI that a template stands for is judged as the URI that it is);
//  2. the rules that deny, that demand a confirmation, that allow, in this order;
//  3. the default.
//
// An allow glob of an upstream narrows, it never grants: with the default deny
// nothing is allowed by it.
//
// # Rules
//
// A rule matches where all three hold: its [Who], of which the lists are all to
// hold, each by one of its values; its [What], of which the lists of tools,
// resources and prompts are alternatives and the upstreams narrow all of them;
// and its [Condition]. What is not given holds for all. Of several rules with one
// effect the first decides; the limits of all that match are taken.
//
// A rule that denies or demands a confirmation goes by two public names where an item
// has another than its own, since another upstream has that: by either. Else the list
// of one upstream could free items of another from their rules.
//
// In a glob an asterisk stands for any run of characters, the empty one and
// slashes included. Every other character stands for itself.
//
// A condition that cannot be evaluated never allows: a rule that allows does not
// match then, one that denies or demands a confirmation does. In a list the
// arguments are not known; a condition whose outcome depends on them may hold.
//
// A variable that is not about the item (tool for a resource) has no fields: to
// read one cannot be evaluated, has() of one is false. The same goes for what lists
// say of a resource where none has its URI.
//
// # URIs
//
// A listed resource is judged by the URI in the list. An unlisted one is judged only in
// the canonical spelling of its URI (package canonical); in another spelling it is
// refused wherever policy might refuse, confirm or count a resource of the upstream by its
// URI ([RuleURI]). Package catalog says which items are not canonical.
//
// Globs that allow compare URIs byte for byte. Globs that deny, confirm or count compare
// what servers may not tell apart: they ignore case and percent-encoding, and cover what
// follows the URI after a slash, a question mark or a semicolon. Conditions compare a URI
// as it is written.
//
// A [Policy] is compiled once, immutable, and safe for concurrent use, and so is
// what it makes. A decision that no condition takes part in does not allocate.
// What a condition may cost is bounded. The package is pure.
package policy
