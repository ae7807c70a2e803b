// Package call defines a call with a back channel, the internal form in which both eras
// of the protocol meet.
//
//	front end ──Call──▶ router ──Call (native names)──▶ connector
//	    ▲                                                   │
//	    └────────────── BackChannel: Notify, Ask ───────────┘
//
// A front end makes a [Call] from a client's request; a connector translates it for its
// upstream. Nothing between the two depends on the era.
//
// A Call is immutable after it was passed on; changes are made to copies. Its context is
// a [Scope]. The package is pure.
package call
