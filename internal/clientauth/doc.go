// Package clientauth builds the authentication of clients from a configuration. Without a
// running gateway it can say which principal some credentials have, and which profile that
// principal gets.
//
// The package has no state. All functions may be called concurrently, except [Reload].
package clientauth
