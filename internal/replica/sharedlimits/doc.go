// Package sharedlimits counts calls in a store, for all replicas together. A running call counts
// until it ends, or, if its replica has died, until its lease has passed.
package sharedlimits
