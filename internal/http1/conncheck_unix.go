//go:build unix

package http1

import (
	"net"
	"syscall"

	"mcpgateway/internal/sockio"
)

// canCheck says that this system tells without blocking whether the server has
// closed a connection.
const canCheck = true

// connCheck tells whether an idle connection is still usable: open, with nothing
// to read. It does not block.
type connCheck struct {
	raw  syscall.RawConn
	read func(fd uintptr) bool
	buf  [1]byte
	ok   bool
}

// newConnCheck returns nil for a connection without a file descriptor.
func newConnCheck(c net.Conn) *connCheck {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &connCheck{raw: raw}
	p.read = func(fd uintptr) bool {
		_, err := sockio.TryRead(fd, p.buf[:])
		p.ok = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
	return p
}

// alive reports whether the server has neither closed the connection nor sent
// anything since the last response. A connection that is not alive must be closed:
// alive may have read a byte from it.
func (p *connCheck) alive() bool {
	if p == nil {
		return false
	}
	p.ok = false
	return p.raw.Read(p.read) == nil && p.ok
}
