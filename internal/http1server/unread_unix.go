//go:build unix

package http1server

import (
	"net"
	"syscall"
)

// hasUnread reports whether bytes have arrived that nobody has read yet. Closing such a connection resets
// it, and a proxy cannot tell whether the request in it was taken.
func hasUnread(c net.Conn) (unread bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) { // the connection does not block
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		unread = err == nil && n > 0
	})
	return unread
}
