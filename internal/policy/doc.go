// Package policy decides who may see and use which item.
//
//	principal + item{kind, upstream, public, native} ──Decide──▶ effect, and what decided
//
// One function serves lists and calls: what a list shows can be called, and
// what a call refuses is not listed. That a refused item and an absent one look
// the same is the caller's part.
//
// Two things decide, in this order:
//
//  1. what an upstream is let through at all: its deny globs, which win, and
//     its allow globs, of native names (a resource's URI, a template's text; a
//     URI that a template stands for is judged as the URI that it is);
//  2. the default.
//
// An allow glob of an upstream narrows, it never grants: with the default deny
// nothing is allowed by it.
//
// In a glob an asterisk stands for any run of characters, the empty one and
// slashes included. Every other character stands for itself.
//
// A [Policy] is compiled once, immutable, and safe for concurrent use; a
// decision does not allocate. The package is pure.
package policy
