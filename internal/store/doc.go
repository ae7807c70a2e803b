// Package store keeps what several replicas of the gateway share: values, sets of fields, logs, and
// what calls have taken out of limits. [Memory] is a store within one process, and package redis
// has one in Redis or Valkey; both pass the tests of package storetest.
//
// A store knows nothing of sessions or calls. Packages that have something to share declare small
// interfaces of their own, and package gateway fills them from a store.
package store
