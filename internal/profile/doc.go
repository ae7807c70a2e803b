// Package profile describes the named views of a configuration: which items a profile selects.
//
//	Options ──New──▶ Profile ──catalog──▶ the table of the profile
//	                    └──Policy(common)──▶ the policy of its table
//
// A profile selects by upstreams, by tags, by the annotations of tools, and by globs of ordinary
// public names: the names of items without any profile, even if the profile gives them other
// names. An item has to match all given criteria. Tags are alternatives, and an item has its own
// tags and those of its upstream.
//
// A profile may list only a few of its tools, and may have items of the gateway itself to find
// and use the others.
//
// A profile only narrows: its policy is the common one plus the selection and the profile's
// rules, so that an unlisted URI cannot evade the selection either.
//
// A Profile is immutable and safe for concurrent use. The package is pure.
package profile
