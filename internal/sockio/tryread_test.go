//go:build unix

package sockio

import (
	"bytes"
	"syscall"
	"testing"
)

func TestTryRead(t *testing.T) {
	near, far := pair(t)
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	try := func() (n int, err error) {
		if failed := raw.Read(func(fd uintptr) bool { n, err = TryRead(fd, b); return true }); failed != nil {
			t.Fatal(failed)
		}
		return n, err
	}
	wait := func() { // until the socket is readable
		if err := raw.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), b[:1], syscall.MSG_PEEK)
			return err != syscall.EAGAIN
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := try(); n > 0 || err != syscall.EAGAIN {
		t.Errorf("of nothing: %d, %v", n, err)
	}
	far.Write([]byte("data"))
	wait()
	if n, err := try(); err != nil || !bytes.Equal(b[:n], []byte("data")) {
		t.Errorf("of data: %q, %v", b[:n], err)
	}
	far.CloseWrite()
	wait()
	if n, err := try(); n != 0 || err != nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
}
