// Package storetest has the tests that every store passes.
package storetest
