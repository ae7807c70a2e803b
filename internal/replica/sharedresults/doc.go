// Package sharedresults keeps long results in a store, so that each replica can read what another one
// has kept.
//
// A [Store] keeps results in the store and in the memory of this replica. A replica that does not have
// a result reads it from the store once, and then has it in its memory too. While the store is away,
// results are kept here alone, and move to the store when it is back.
//
// Two bounds hold in the store: what one principal may keep, for all replicas together, and what
// each replica has put there in total. The oldest results go first.
package sharedresults
