// Package call holds the one inner shape that both protocol eras meet in: a
// call with a back channel.
//
//	front end ──Call──▶ router ──Call (native names)──▶ connector
//	    ▲                                                   │
//	    └────────────── BackChannel: Notify, Ask ───────────┘
//
// A front end makes a [Call] out of what a client sent; a connector turns it
// into what its upstream understands. Between the two nobody asks for the era.
//
// A Call is made by one goroutine and read by many; nobody changes it after it
// was handed on, but makes a copy. Its context is a [Scope]. The package is pure and imports only wire.
package call
