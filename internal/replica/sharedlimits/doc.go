// Package sharedlimits counts calls in a store, for all replicas together. A running call counts
// until it ends. If its replica has died, it counts until its lease expires.
package sharedlimits
