// Package configfile reads YAML, JSON and TOML files into trees of [yaml.Node], in which every
// node has its position, and collects errors and warnings about them.
//
// An [Edit] changes single entries of a YAML file in place.
//
// It knows only the languages, not the keys: package config decodes the trees of gateway.yaml,
// package hostimport those of other programs.
//
// Guarantees:
//
//   - Every error has a file, a line and a column, and at most one megabyte of a file is read.
//   - An edit keeps every byte that it need not change, or it is refused.
//   - The number of values that aliases and merges expand to is bounded, see [Reader.Spend].
//
// The package holds no state: every function may be called concurrently, on different readers.
package configfile
