// Package compare holds two JSON texts against each other to the byte.
//
// Undo finds the values that were replaced and the members that were added or taken away, and puts the second text back into the state of the
// first by undoing these and nothing else. Whoever calls it looks whether each change was allowed, and whether the outcome is the first text: white
// space, spelling of numbers and strings, order and repetition of members all count.
//
// The package is pure, shares no code with the gateway, and takes valid JSON only.
package compare
