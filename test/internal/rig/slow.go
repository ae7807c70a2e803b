package rig

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// SlowWire passes connections on to an address, each piece after a delay.
type SlowWire struct {
	Addr  string
	Delay atomic.Int64 // a time.Duration: of a round trip
	to    string
	conns sync.Map // net.Conn
	group sync.WaitGroup
}

// NewSlowWire returns a SlowWire to an address, without a delay yet, which ends with the test.
func NewSlowWire(t testing.TB, to string) *SlowWire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &SlowWire{Addr: l.Addr().String(), to: to}
	w.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.group.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		w.group.Wait()
	})
	return w
}

func (w *SlowWire) carry(a net.Conn) {
	defer a.Close()
	b, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer b.Close()
	for _, c := range []net.Conn{a, b} {
		w.conns.Store(c, nil)
		defer w.conns.Delete(c)
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer way[0].Close()
			defer way[1].Close()
			w.copy(way[1], way[0])
		})
	}
	both.Wait()
}

// copy copies until one side ends. Half of the delay is that of each direction.
func (w *SlowWire) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if d := time.Duration(w.Delay.Load()); n > 0 && d > 0 {
			time.Sleep(d / 2) // the slowness itself
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}
