//go:build !unix

package upstream

import "net"

// canPlain says that net/http sends everything: it notices in a goroutine of its
// own when a server closes a connection.
const canPlain = false

type pulse struct{}

func newPulse(net.Conn) *pulse { return nil }

func (*pulse) alive() bool { return false }
