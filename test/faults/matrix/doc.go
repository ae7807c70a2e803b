// Package matrix verifies what every fault of an upstream does, on every transport and at every moment: one cell for each.
//
// A cell asserts what the client gets, to the code and the reason; that the next call is answered once the fault has stopped, without any restart of
// the gateway; that the calls to another upstream are all answered right meanwhile; and that no goroutine, file or process is left. The clients of
// the package do the same from the other side: they misbehave in every way, and other clients must not notice.
//
// The gateway is the real binary, in front of servers that are processes of their own: this test binary in a special role. They speak MCP rightly
// until the test tells them to fail. All cells of one transport and one moment run at the same time behind one gateway, so that the whole matrix is
// as slow as its longest timeout.
//
// testdata/cells.txt holds what each cell expects, and docs/reliability.md the same for people on call. With -update the tests write both; read
// the difference before you commit it.
package matrix
