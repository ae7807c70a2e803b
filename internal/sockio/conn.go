package sockio

import (
	"errors"
	"net"
	"syscall"
)

// maxPiece is how much is read or written without telling the scheduler: copying more takes
// so long that other goroutines should get the processor.
const maxPiece = 16 << 10

// Conn is a connection whose small reads and writes are fast.
type Conn struct {
	net.Conn
	raw *rawConn // nil if the connection does all by itself
}

// New wraps a connection. Another wrapper's Read and Write are kept: only a *net.TCPConn
// becomes fast.
func New(c net.Conn) *Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return &Conn{c, nil}
	}
	return &Conn{c, newRawConn(tcp)}
}

// SyscallConn implements syscall.Conn. It fails for a connection that is not a socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if socket, ok := c.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.raw == nil || len(b) == 0 || len(b) > maxPiece {
		return c.Conn.Read(b)
	}
	return c.raw.read(b)
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.raw == nil || len(b) == 0 || len(b) > maxPiece {
		return c.Conn.Write(b)
	}
	return c.raw.write(b)
}
