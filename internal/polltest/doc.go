// Package polltest waits in tests for a condition that another goroutine or process
// brings about without any signal. If there is something to wait on, such as a channel, the
// end of a process or a bubble of testing/synctest, a test waits on that instead. The
// package is apart from gatewaytest because tests that start their own binary many times use
// it, and it adds nothing to that binary.
package polltest
