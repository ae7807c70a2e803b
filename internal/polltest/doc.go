// Package polltest polls in tests for a condition that another goroutine or process
// establishes without any signal. If there is a signal, such as a channel, the end of a
// process or a bubble of testing/synctest, a test waits for that instead. The package is
// separate from gatewaytest because tests that start their own binary many times use it, and
// it keeps that binary small.
package polltest
