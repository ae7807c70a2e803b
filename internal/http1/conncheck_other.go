//go:build !unix

package http1

import "net"

// canCheck is false: http.Transport sends every request. It notices in a goroutine
// of its own when a server closes a connection.
const canCheck = false

type connCheck struct{}

func newConnCheck(net.Conn) *connCheck { return nil }

func (*connCheck) alive() bool { return false }
