// Package store keeps what several replicas of the gateway share: values, sets of fields, logs, and
// what calls have taken out of limits. Package redis has a store in Redis or Valkey, and package
// storetest one in memory for tests; both pass its tests.
//
// A store knows nothing of sessions or calls. Packages that have something to share declare small
// interfaces of their own, and package gateway fills them from a store.
package store
