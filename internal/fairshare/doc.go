// Package fairshare bounds the use of a resource by all clients together, such that no
// client can use all of it.
//
// A [Budget] has a maximum for all clients. A client may acquire more only while its
// share is not larger than the free part: a single client gets half of the budget, two
// get a third each, and the next client can still get as much as each of them has.
package fairshare
