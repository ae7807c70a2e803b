// Package rig puts together what end-to-end tests stand on: the installed npm packages, the binaries that the tests need, the servers that play
// upstream, and the gateway in front of them.
//
// Every package of tests that uses it calls Enter in its TestMain; see package netns for what that means. A missing part is never a reason to
// skip: Enter ends the run with the command that brings it. Servers and gateways belong to the test that started them and end with it, so a
// test that shares one among subtests starts it itself.
//
// Functions that take a testing.TB must be called from that test's goroutine, since they may end it.
package rig
