// Package process runs the real programs of end-to-end tests: servers, clients and the gateway.
//
// Every program runs in its own process group with a small environment and a temporary home folder. Its output is captured up to a limit and shown
// if the test fails. The program and its group end with the test that started it. If the test binary itself dies, the kernel kills the program.
//
// A Process may be used by several goroutines. The package waits for conditions (a port accepts connections, a request is answered, the process
// has ended) with a deadline, never for a fixed time.
package process
