// Package script runs Starlark scripts that call tools, within bounds.
//
//	source ──Compile──▶ Program ──Run.Do──▶ Result or *Failure
//	           │                     │
//	        rewrite               Host: Call, Search, Describe
//
// A script has no files, no modules, no network, no clock and no randomness. It can use
// only the [Host] of its run.
//
// # Bounds
//
// The interpreter of go.starlark.net counts steps and nothing else: one step may copy a
// gigabyte, or compare two values for a year. So Compile rewrites the syntax tree. Each
// operator, method, slice, display, and key becomes a call of a function of this package,
// which charges the memory of its result before it makes it, and the work of reading its
// operands before it reads them. The remaining steps of the interpreter take bounded time
// and make bounded values. These are the rules:
//
//   - The memory of all values of a run is counted, including values that it no longer uses.
//     So a run never uses more than [MaxMemory] and a bounded factor of it.
//   - Work that grows with a value counts as steps.
//   - Values that are read as a tree (compared, printed, encoded, hashed) are nested at most
//     100 levels. A value that contains another one twice counts twice.
//   - Integers have at most 4096 bits. Functions nest at most 200 calls.
//   - A run computes for at most 10 seconds, apart from the time of its calls.
//
// A run that exceeds a bound ends with a [Failure], which says where and why.
//
// The package is pure: it uses no network and no logger, and a clock that is handed in. A
// Program is immutable; a Run belongs to one goroutine, except for Pause and Resume.
package script
