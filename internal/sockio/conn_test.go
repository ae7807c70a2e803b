package sockio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair returns both ends of a connection on loopback, the first one wrapped.
func pair(t testing.TB) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return New(near), far.(*net.TCPConn)
}

func TestTransfers(t *testing.T) {
	near, far := pair(t)
	for _, size := range []int{1, 100, maxPiece, maxPiece + 1} {
		sent := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		go near.Write(sent)
		got := make([]byte, size)
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes written: %v", size, err)
		}
		go far.Write(sent)
		clear(got)
		if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes read: %v", size, err)
		}
	}
	far.CloseWrite()
	if n, err := near.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// A peer that does not read blocks the writer, which goes on when it reads.
func TestWriteWaits(t *testing.T) {
	near, far := pair(t)
	piece, total := make([]byte, maxPiece), 0
	near.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for {
		n, err := near.Write(piece)
		if total += n; err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	near.SetWriteDeadline(time.Time{})
	written := make(chan error, 1)
	go func() {
		_, err := near.Write(piece)
		written <- err
	}()
	if n, err := io.CopyN(io.Discard, far, int64(total+len(piece))); err != nil {
		t.Errorf("the peer got %d of %d bytes: %v", n, total+len(piece), err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// Errors are those of the standard library, in kind and in words.
func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(near net.Conn, far *net.TCPConn)
		do      func(net.Conn) error
		want    error
	}{
		"a deadline":            {func(near net.Conn, _ *net.TCPConn) { near.SetReadDeadline(time.Unix(1, 0)) }, readOne, os.ErrDeadlineExceeded},
		"closed here":           {func(near net.Conn, _ *net.TCPConn) { near.Close() }, readOne, net.ErrClosed},
		"closed while reading":  {func(near net.Conn, _ *net.TCPConn) { time.AfterFunc(10*time.Millisecond, func() { near.Close() }) }, readOne, net.ErrClosed},
		"reset":                 {func(_ net.Conn, far *net.TCPConn) { far.SetLinger(0); far.Close() }, readOne, syscall.ECONNRESET},
		"writing after the end": {func(near net.Conn, _ *net.TCPConn) { near.(interface{ CloseWrite() error }).CloseWrite() }, writeOne, syscall.EPIPE},
	} {
		near, far := pair(t)
		tt.prepare(near.Conn, far)
		got := tt.do(near)
		plain, far := pair(t)
		tt.prepare(plain.Conn, far)
		want := tt.do(plain.Conn)
		if !errors.Is(got, tt.want) || !errors.Is(want, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		gotOp, ok := errors.AsType[*net.OpError](got)
		wantOp, _ := errors.AsType[*net.OpError](want)
		if !ok || gotOp.Op != wantOp.Op || gotOp.Timeout() != wantOp.Timeout() || gotOp.Err.Error() != wantOp.Err.Error() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func readOne(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

func writeOne(c net.Conn) error {
	_, err := c.Write([]byte("x"))
	return err
}

func TestNoAllocations(t *testing.T) {
	near, far := pair(t)
	b := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		near.Write(b)
		far.Read(b)
		far.Write(b)
		near.Read(b)
	}); n > 0 {
		t.Errorf("an exchange allocates %v times", n)
	}
}

// A connection that is not a socket works by itself.
func TestNoSocket(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := New(near)
	defer c.Close()
	go c.Write([]byte("x"))
	got := make([]byte, 1)
	if _, err := far.Read(got); err != nil || got[0] != 'x' {
		t.Error(err)
	}
}
