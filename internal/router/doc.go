// Package router is the pipeline of one call, and nothing else:
//
//	resolve the public name ▶ policy ▶ rewrite params ▶ upstream ▶ rewrite result
//
// A call loads the current [Routes] once and keeps them to its end, so a table
// that is swapped in while it runs changes nothing for it. A [Router] may be
// used by any number of goroutines, and Swap at any time.
package router
