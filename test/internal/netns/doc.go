// Package netns gives the tests of a package a network of their own: a Linux network namespace with nothing in it but loopback.
//
// Several published MCP servers bind every interface, and none can be told not to. In the namespace they are out of everyone's reach, no port
// is taken by anybody else, and nothing that a test starts can talk to the outside world.
//
// Enter is called once, first thing in TestMain, before any goroutine of the test's own exists. Port may be called from any goroutine.
// The package is no sandbox: files and processes are shared with the machine.
package netns
