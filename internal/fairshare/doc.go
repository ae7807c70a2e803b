// Package fairshare bounds what all clients hold together, such that no client can
// take everything.
//
// A [Budget] has a maximum for all clients. A client may acquire more only while it
// holds no more than what is left for the others: a single client gets half of the
// budget, two get a third each, and the next client still finds as much as any of
// them has.
package fairshare
