// Package process starts a program as a child process with pipes as its standard
// streams, and ends it together with every process that it started.
//
//	gateway ──pipe──▶ supervisor ──fork──▶ program ──▶ its own children
//	                      │ adopts orphans       (one process group)
//	                      └ kills all of them when the gateway closes the pipe or dies
//
// On Unix each program runs under a supervisor, which is a copy of the gateway's
// own executable; see [SuperviseMain]. On Windows a job object does the same.
//
// # Guarantees
//
// When [Process.Stop] returns, the program and all of its descendants have ended.
// They also end if the gateway is killed. The exception is a process on Windows
// that the program started before it belonged to the job.
//
// The standard error of the program is logged line by line, masked, and limited in
// rate and length.
//
// # Concurrency
//
// A [Process] has two goroutines, which end with Stop: one reads standard error, one
// waits for the program. Stop is called once, while another goroutine reads Stdout.
package process
