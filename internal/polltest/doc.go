// Package polltest waits for what another goroutine or another process brings about
// and nothing tells of. Where there is something to wait on (a channel, the end of a
// process, a bubble of testing/synctest), a test waits on that instead. It stands apart
// from gatewaytest because tests that start their own binary many times use it, and it
// adds nothing to that binary. It is imported by tests only.
package polltest
