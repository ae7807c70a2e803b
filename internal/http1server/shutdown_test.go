package http1server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
)

// Shutdown waits for requests, and closes the connections of both servers.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		s, l := New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost || r.Method == http.MethodPut {
				<-wait
			}
		}))), make(memoryListener)
		serve(t, s, l)
		var conns []net.Conn
		for _, send := range []string{
			"GET / HTTP/1.1\r\nHost: g\r\n\r\n", "GET /? HTTP/1.1\r\nHost: g\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: g\r\n\r\n", "PUT / HTTP/1.1\r\nHost: g\r\n\r\n",
		} {
			c := l.dial()
			defer c.Close()
			io.WriteString(c, send)
			conns = append(conns, c)
		}
		answered := func(c net.Conn, last bool) {
			t.Helper()
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.Close != last {
				t.Fatalf("%v, %v", resp, err)
			}
			if last {
				if _, err := in.ReadByte(); err != io.EOF {
					t.Errorf("the connection is open after its last answer: %v", err)
				}
			}
		}
		answered(conns[0], false)
		answered(conns[1], false)
		s.SetKeepAlivesEnabled(false)
		for _, c := range conns[:2] {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("an idle connection is open: %v", err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("Shutdown did not wait")
		}
		close(wait)
		answered(conns[2], true)
		answered(conns[3], true)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// When keep-alives end, a request that is on its way is answered: on a connection that was idle, and on
// one whose answer had begun without saying that it is the last one.
func TestLastRequest(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: g\r\n\r\n"
	for _, shutdown := range []bool{false, true} {
		t.Run(fmt.Sprintf("shutdown=%v", shutdown), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var group sync.WaitGroup
				defer group.Wait()
				wait := make(chan struct{})
				s, l := New(quietServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						w.Header().Set("Content-Length", "1")
						w.WriteHeader(http.StatusOK)
						http.NewResponseController(w).Flush()
						<-wait
						io.WriteString(w, "x")
					}
				}))), make(memoryListener)
				serve(t, s, l)
				ask := func(c net.Conn, request string) (*http.Response, *bufio.Reader) {
					t.Helper()
					in := bufio.NewReader(c)
					io.WriteString(c, request)
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					return resp, in
				}
				idle, busy, silent := l.dial(), l.dial(), l.dial()
				for _, c := range []net.Conn{idle, busy, silent} {
					defer c.Close()
				}
				ask(idle, get)
				ask(silent, get)
				begun, _ := ask(busy, "POST / HTTP/1.1\r\nHost: g\r\n\r\n")
				if shutdown {
					group.Go(func() { s.Shutdown(t.Context()) })
				} else {
					s.SetKeepAlivesEnabled(false)
				}
				synctest.Wait()
				close(wait)
				if text, err := io.ReadAll(begun.Body); string(text) != "x" || err != nil {
					t.Errorf("the answer that had begun is %q, %v", text, err)
				}
				for name, c := range map[string]net.Conn{"idle": idle, "busy": busy} {
					resp, in := ask(c, get)
					if !resp.Close {
						t.Errorf("%s: the answer does not say that it is the last one", name)
					}
					if _, err := in.ReadByte(); err != io.EOF {
						t.Errorf("%s: the connection is open after its last answer: %v", name, err)
					}
				}
				if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("a silent connection is open: %v", err)
				}
			})
		})
	}
}
