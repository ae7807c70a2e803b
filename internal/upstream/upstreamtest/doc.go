// Package upstreamtest has a server and a client for the tests of upstream and its
// packages: a [Server] answers over an in-process pipe as a test says, and a [Peer] is
// the back channel of a client.
package upstreamtest
