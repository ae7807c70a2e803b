// Package process runs the real programs that end-to-end tests stand on: servers, clients, the gateway itself.
//
// Every program is a process group of its own with a small environment and a home folder that is thrown away. Its output is captured within a
// bound and shown when the test fails. A program that a test started is gone when the test ends, with whatever it started in its group; should
// the test binary itself die, the kernel kills the program.
//
// A Process may be used by several goroutines. Waiting is on conditions (a port that accepts, an answer that comes, the end of the process),
// with a deadline; nothing sleeps and hopes.
package process
