// Package storetest has the tests that every store must pass, and a store in memory for the tests
// of packages that use a store.
package storetest
