// Package storetest has the tests that every store passes, and a store in memory for the tests of
// packages that share something.
package storetest
