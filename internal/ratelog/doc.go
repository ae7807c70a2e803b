// Package ratelog limits how many log lines clients can cause.
//
// A refused request costs its sender nothing, so one line for each would let any
// client fill the disk and hide the lines that matter. Each message has its own
// rate limit: a flood of one message does not keep others out of the log.
package ratelog
