// Package store is the contract of the store that replicas of the gateway share. It has values,
// sets of fields, logs, and limits of calls. Package redis has a store in Redis or Valkey, and
// package storetest one in memory for tests; both pass its tests.
//
// A store knows nothing about sessions or calls. Packages that share state declare their own small
// interfaces, and package gateway implements them with a store.
package store
