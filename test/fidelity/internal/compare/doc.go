// Package compare compares two JSON texts byte by byte.
//
// Undo finds the values that were replaced and the members that were added or removed, and reverts exactly these changes in the second text. The
// caller checks whether each change was allowed and whether the result equals the first text. White space, the spelling of numbers and strings, and
// the order and repetition of members all count.
//
// The package has no side effects, shares no code with the gateway, and requires valid JSON.
package compare
