// Package sparing bounds how many lines of the log a client can cause.
//
// A request that is refused costs its sender nothing, so a line for each would let
// anybody fill the disk, and hide what matters among them. Each message has an
// allowance of its own: a flood of one does not keep another out of the log.
package sparing
