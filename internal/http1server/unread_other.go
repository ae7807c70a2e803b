//go:build !unix

package http1server

import "net"

// hasUnread reports whether bytes have arrived that nobody has read yet. It is not known here.
func hasUnread(net.Conn) bool { return false }
