// Package difference compares two definitions of a tool for a person: member by member, and texts word by word. Its cost
// is bounded for any input, and no change is left out.
package difference
