// Package ratelog limits how many log lines clients can cause.
//
// A refused request costs its sender nothing. With one line for each, any client could
// fill the disk and hide important lines. Each message, and each category of it, has its own
// rate limit: a flood of one does not keep others out of the log.
package ratelog
