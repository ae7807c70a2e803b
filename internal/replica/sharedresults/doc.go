// Package sharedresults keeps long results in a store, so that each replica can read the results of
// the others.
//
// A [Store] keeps results in the store and in the memory of this replica. A replica without a result
// reads it from the store once, and then keeps it in its memory too. While the store does not answer,
// results are kept only in this replica, and move to the store when it is back.
//
// The store has two bounds: one for the results of a principal, from all replicas together, and one
// for all results of a replica. The oldest results are removed first.
package sharedresults
