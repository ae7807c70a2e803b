// Package glob matches names with the patterns of the configuration.
//
// An asterisk stands for any run of characters, the empty one and slashes included.
// Every other character stands for itself.
//
// Policy decides with the same globs that the configuration is checked with, so a check
// cannot drift from enforcement. A match costs time linear in the text for each literal
// part of the glob. The package is pure.
package glob
