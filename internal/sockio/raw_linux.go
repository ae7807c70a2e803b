//go:build !race

package sockio

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// rawConn makes system calls on the socket of a connection.
type rawConn struct {
	conn    *net.TCPConn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is one direction of a connection, with the state of its current call.
type transfer struct {
	op   string
	trap uintptr
	all  bool                  // the call ends when all bytes were transferred
	try  func(fd uintptr) bool // as a value, so that no call allocates it

	mu    sync.Mutex // held during a call
	left  []byte
	n     int
	errno syscall.Errno
}

// newRawConn returns nil for a connection that is closed.
func newRawConn(c *net.TCPConn) *rawConn {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawConn{conn: c, raw: raw, in: transfer{op: "read", trap: syscall.SYS_READ}, out: transfer{op: "write", trap: syscall.SYS_WRITE, all: true}}
	r.in.try, r.out.try = r.in.transfer, r.out.transfer
	return r
}

// transfer makes system calls until the transfer has ended. It returns false if it must be
// called again when the socket is ready.
func (t *transfer) transfer(fd uintptr) bool {
	for len(t.left) > 0 {
		n, errno := once(t.trap, fd, t.left)
		switch errno {
		case 0:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
		t.n += n
		t.left = t.left[n:]
		if !t.all || n == 0 {
			return true
		}
	}
	return true
}

// once makes a system call that reads into b or writes it.
func once(trap, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

// TryRead reads what a non-blocking socket has received into b, which is small and not empty.
// The error is syscall.EAGAIN if there is nothing. No bytes without an error mean that the peer
// sends nothing more. A function that gets fd from a syscall.RawConn may call it.
func TryRead(fd uintptr, b []byte) (int, error) {
	n, errno := once(syscall.SYS_READ, fd, b)
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

func (r *rawConn) read(b []byte) (int, error) {
	n, err := r.in.run(r, r.raw.Read, b)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (r *rawConn) write(b []byte) (int, error) {
	n, err := r.out.run(r, r.raw.Write, b)
	if n < len(b) && err == nil {
		err = io.ErrUnexpectedEOF // as the standard library does
	}
	return n, err
}

// run transfers b. wait calls try whenever the socket is ready.
func (t *transfer) run(r *rawConn, wait func(func(uintptr) bool) error, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.n, t.errno = b, 0, 0
	err := wait(t.try)
	t.left = nil
	if t.errno != 0 {
		err = &net.OpError{
			Op: t.op, Net: r.conn.LocalAddr().Network(), Source: r.conn.LocalAddr(), Addr: r.conn.RemoteAddr(),
			Err: os.NewSyscallError(t.op, t.errno),
		}
	} else if failed, ok := errors.AsType[*net.OpError](err); ok {
		failed.Op = t.op // not "raw-read"
	}
	return t.n, err
}
