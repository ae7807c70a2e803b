package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// inbox is a listener whose connections the test makes, without a network, so
// that a bubble of synctest knows when all are idle.
type inbox struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newInbox() *inbox { return &inbox{conns: make(chan net.Conn), over: make(chan struct{})} }

func (i *inbox) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.over:
		return nil, net.ErrClosed
	}
}

func (i *inbox) Close() error   { i.once.Do(func() { close(i.over) }); return nil }
func (i *inbox) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection, nil when nobody accepts it.
func (i *inbox) dial() net.Conn {
	near, far := net.Pipe()
	select {
	case i.conns <- far:
		return near
	case <-i.over:
		return nil
	}
}

const get = "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"

// The answer to the last call is on its way when its handler has returned: the
// end of the drain waits until it is written. Meanwhile connections are accepted,
// and what they ask for does not hold the end up.
func TestFinishWaitsForTheLastByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := strings.Repeat("x", 100)
		served := 0
		running, in := &busy{}, newInbox()
		srv := &http.Server{ConnState: running.observe, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			served++
			io.WriteString(w, answer)
		})}
		over := make(chan error, 1)
		go func() { over <- srv.Serve(in) }()

		slow, idle := in.dial(), in.dial()
		defer slow.Close()
		defer idle.Close()
		read(t, idle, answer)
		if _, err := io.WriteString(slow, get); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the handler has returned, and nobody reads its answer
		if served != 2 {
			t.Fatalf("%d requests were served, want 2", served)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		finished := make(chan bool, 1)
		go func() { finished <- finish(ctx, srv, running); srv.Close() }()
		synctest.Wait()

		late, never := in.dial(), in.dial()
		if late == nil || never == nil {
			t.Fatal("a connection was refused while a call was running")
		}
		defer late.Close()
		defer never.Close()
		if resp := read(t, late, answer); !resp.Close {
			t.Error("a connection that came late is kept open")
		}
		if _, err := io.WriteString(never, get); err != nil { // whose answer nobody reads
			t.Fatal(err)
		}
		synctest.Wait()
		if len(finished) > 0 {
			t.Fatal("it ended before the last answer was written")
		}
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != answer {
			t.Errorf("the last answer is %q, %v", body, err)
		}
		began := time.Now()
		if all := <-finished; !all {
			t.Error("not all was answered")
		}
		if took := time.Since(began); took > farewell {
			t.Errorf("the end took %s more, since a client that came late does not read", took)
		}
		if in.dial() != nil {
			t.Error("connections are accepted after the end")
		}
		<-over
	})
}

// What is not answered in time is given up.
func TestFinishIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, in := &busy{}, newInbox()
		srv := &http.Server{ConnState: running.observe, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
		over := make(chan error, 1)
		go func() { over <- srv.Serve(in) }()
		c := in.dial()
		defer c.Close()
		if _, err := io.WriteString(c, get); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if finish(ctx, srv, running) {
			t.Error("it says that all was answered")
		}
		if took := time.Since(began); took != time.Second+farewell {
			t.Errorf("it took %s", took)
		}
		srv.Close()
		<-over
	})
}

// read sends a request and reads the answer.
func read(t *testing.T, c net.Conn, want string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, get); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != want {
		t.Fatalf("answer %q, %v", body, err)
	}
	return resp
}
