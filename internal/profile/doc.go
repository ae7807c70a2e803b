// Package profile describes the named views of a configuration: which items a profile selects.
//
//	Options ──New──▶ Profile ──catalog──▶ the table of the profile
//	                    └──Policy(common)──▶ the policy of its table
//
// A profile selects by upstreams, by tags, by the annotations of tools, and by globs of ordinary
// public names: those that items have without any profile, whatever the profile calls them. All
// that is given has to hold. Tags are alternatives, and an item has those of its upstream and its
// own.
//
// A profile may list few of its tools, and may have items of the gateway itself that help to find
// and use the others.
//
// A profile only narrows: its policy is the common one with the selection and the profile's
// rules on top, so that an unlisted URI cannot evade the selection either.
//
// A Profile is immutable and safe for concurrent use. The package is pure.
package profile
