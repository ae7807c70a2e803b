// Package netns runs the tests of a package in their own Linux network namespace, which has only loopback.
//
// Several published MCP servers listen on every interface and cannot be configured otherwise. In the namespace nothing outside can reach them,
// no port is taken by another program, and the tested programs cannot reach the outside.
//
// TestMain must call Enter first, before the tests start any goroutine. Port may be called from any goroutine.
// The package is no sandbox: files and processes are shared with the machine.
package netns
