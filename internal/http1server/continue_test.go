package http1server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/polltest"
)

// waiting is what a silent stream uses of a ResponseWriter.
type waiting interface {
	http.ResponseWriter
	http.Flusher
	Wait(until time.Time) bool
	Wake()
	Continue(func(context.Context, http.ResponseWriter))
}

// ticker writes "x" each time that its response wakes up, until it is told to end.
type ticker struct {
	stays bool // in the handler
	began chan waiting
	end   atomic.Bool
	ended chan error // of the context
}

func newTicker(stays bool) *ticker {
	return &ticker{stays: stays, began: make(chan waiting, 1), ended: make(chan error, 1)}
}

func (k *ticker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/ticks" {
		io.Copy(w, r.Body)
		return
	}
	w.Header().Set("X", "1")
	if k.stays {
		k.run(r.Context(), w)
		return
	}
	ctx := r.Context()
	w.(waiting).Continue(func(rest context.Context, to http.ResponseWriter) {
		if ctx.Err() == nil || to == w {
			k.ended <- io.ErrNoProgress // the request is still in use
		}
		if _, err := io.WriteString(w, "x"); err != errHandlerReturned {
			k.ended <- fmt.Errorf("a late write: %w", err)
		}
		k.run(rest, to)
	})
}

func (k *ticker) run(ctx context.Context, to http.ResponseWriter) {
	w := to.(waiting)
	w.Flush()
	k.began <- w
	for w.Wait(time.Time{}) && !k.end.Load() {
		io.WriteString(w, "x")
		w.Flush()
	}
	k.ended <- ctx.Err()
}

const getTicks = "GET /ticks HTTP/1.1\r\nHost: g\r\n\r\n"

// A response whose handler has returned goes on, ends in good order, and leaves its
// connection to the next request, even if the client sends that early.
func TestContinue(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	for _, stays := range []bool{false, true} {
		for _, secure := range []bool{false, true} {
			for _, early := range []bool{false, true} {
				k := newTicker(stays)
				next := quietServer(k)
				s := New(next)
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				serving := make(chan error, 1)
				var c net.Conn
				if secure {
					next.TLSConfig = &tls.Config{Certificates: certificate.TLS.Certificates}
					go func() { serving <- s.ServeTLS(l) }()
					c, err = tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // the certificate is made by httptest
				} else {
					go func() { serving <- s.Serve(l) }()
					c, err = net.Dial("tcp", l.Addr().String())
				}
				if err != nil {
					t.Fatal(err)
				}
				const post = "POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\nok"
				for range 2 {
					io.WriteString(c, getTicks)
					in := bufio.NewReader(c)
					resp, err := http.ReadResponse(in, nil)
					if err != nil || resp.Header.Get("X") != "1" {
						t.Fatalf("%v, %v", resp, err)
					}
					w := <-k.began
					for range 2 {
						w.Wake()
						if b := make([]byte, 1); readFull(resp.Body, b) != nil || b[0] != 'x' {
							t.Errorf("got %q", b)
						}
					}
					if early {
						io.WriteString(c, post)
						if b := make([]byte, 1); readFull(resp.Body, b) != nil || b[0] != 'x' { // Wait returned early
							t.Errorf("got %q", b)
						}
						w.Wake()
						if b := make([]byte, 1); readFull(resp.Body, b) != nil || b[0] != 'x' {
							t.Errorf("got %q", b)
						}
					}
					k.end.Store(true)
					w.Wake()
					if rest, err := io.ReadAll(resp.Body); strings.Trim(string(rest), "x") != "" || err != nil { // Wait may return early
						t.Errorf("got %q, %v at the end", rest, err)
					}
					if err := <-k.ended; err != nil {
						t.Errorf("the context ended before the response: %v", err)
					}
					k.end.Store(false)
					w.Wake() // comes late
					if !early {
						io.WriteString(c, post)
					}
					resp, err = http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					if body, err := io.ReadAll(resp.Body); string(body) != "ok" || err != nil {
						t.Errorf("the next answer is %q, %v", body, err)
					}
				}
				c.Close()
				s.Close()
				<-serving
			}
		}
	}
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return err
}

// Wait notices that the client is gone, and that the server closes its connections.
func TestWaitEnds(t *testing.T) {
	for _, stays := range []bool{false, true} {
		for name, end := range map[string]func(*Server, net.Conn){
			"the client closes": func(_ *Server, c net.Conn) { c.Close() },
			"the client resets": func(_ *Server, c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() },
			"the server closes": func(s *Server, _ net.Conn) { s.Close() },
			"after an early request": func(s *Server, c net.Conn) {
				io.WriteString(c, "GET")
				if err := readFull(c, make([]byte, len("1\r\nx\r\n"))); err != nil { // the response has woken up
					t.Error(err)
				}
				s.Close()
			},
		} {
			k := newTicker(stays)
			s := New(quietServer(k))
			c, err := net.Dial("tcp", serve(t, s, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, getTicks)
			in := bufio.NewReaderSize(c, 16)
			for line := ""; line != "\r\n"; {
				if line, err = in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			<-k.began
			end(s, c)
			if err := <-k.ended; err != context.Canceled {
				t.Errorf("%s: the error of the context is %v", name, err)
			}
			polltest.Until(t, "the connection is closed", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.conns) == 0
			})
		}
	}
}

// Wait ends at its time, and keeps waiting for a client that sends its next request early.
func TestWaitUntil(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			took := make(chan time.Duration, 1)
			l := make(memoryListener)
			serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.(waiting).Continue(func(_ context.Context, w http.ResponseWriter) {
					w.(waiting).Flush()
					if early && !w.(waiting).Wait(time.Time{}) {
						t.Error("the client is there")
					}
					began := time.Now()
					if !w.(waiting).Wait(began.Add(time.Minute)) {
						t.Error("the client is there")
					}
					took <- time.Since(began)
				})
			}))), l)
			c := l.dial()
			defer c.Close()
			io.WriteString(c, getTicks)
			in := bufio.NewReader(c)
			if _, err := http.ReadResponse(in, nil); err != nil {
				t.Fatal(err)
			}
			if early {
				go io.WriteString(c, "G")
			}
			if got := <-took; got != time.Minute {
				t.Errorf("it took %s", got)
			}
		})
	}
}

// Shutdown waits for a response whose handler has returned.
func TestShutdownWaitsForTheRest(t *testing.T) {
	k := newTicker(false)
	s := New(quietServer(k))
	c, err := net.Dial("tcp", serve(t, s, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, getTicks)
	w := <-k.began
	s.SetKeepAlivesEnabled(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); err == nil {
		t.Error("Shutdown did not wait")
	}
	k.end.Store(true)
	w.Wake()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "\r\n\r\n0\r\n\r\n") {
		t.Errorf("the response is %q, %v", got, err)
	}
}

// A panic after the handler has returned ends the connection and nothing else.
func TestPanicInTheRest(t *testing.T) {
	address := serve(t, New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(waiting).Continue(func(context.Context, http.ResponseWriter) { panic("a fault") })
	}))), nil)
	for range 2 {
		if got := exchange(t, address, getTicks, false); got != "end: true\n" {
			t.Errorf("got %s", got)
		}
	}
}
