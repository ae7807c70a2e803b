//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// canPlain says that this system can tell a connection that is still good from
// one that the server has closed without waiting for it.
const canPlain = true

// pulse feels whether a connection between two requests is still as it should
// be: open, with nothing to read. It does not wait.
type pulse struct {
	raw  syscall.RawConn
	feel func(fd uintptr) bool
	b    [1]byte
	good bool
}

func newPulse(c net.Conn) *pulse {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &pulse{raw: raw}
	p.feel = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), p.b[:]) // the descriptor does not block
		p.good = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
	return p
}

// alive reports whether the server has neither closed the connection nor sent
// anything since the last answer. When it is false the connection is of no
// further use: a byte may have been read from it.
func (p *pulse) alive() bool {
	if p == nil {
		return false
	}
	p.good = false
	return p.raw.Read(p.feel) == nil && p.good
}
