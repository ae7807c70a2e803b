// Package clientauth makes of a configuration what authenticates clients, and says without a
// gateway what it would make of them: which principal credentials give, and which profile that gets.
//
// The package keeps nothing. All functions may be called by many goroutines at once, except [Reload].
package clientauth
