// Package glob matches names with the patterns of the configuration.
//
// An asterisk matches any run of characters, including slashes and the empty run. Every
// other character matches itself.
//
// Policy and the checks of the configuration use the same globs, so a check cannot
// differ from enforcement. A match costs time linear in the text for each literal part
// of the glob. The package is pure.
package glob
