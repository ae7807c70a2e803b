// Package rig is the harness of the end-to-end tests: the installed npm packages, the binaries under test, the upstream servers, and the gateway.
//
// Every package of tests that uses it calls Enter in its TestMain; see package netns. A missing part does not skip tests: Enter ends the run with
// the command that installs the part. Servers and gateways end with the test that started them. A test that shares one with its subtests
// starts it itself.
//
// Functions with a testing.TB must be called from the goroutine of that test, because they may end it.
package rig
