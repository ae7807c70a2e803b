package frontend

import (
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/wire"
)

// slowConn is a connection on which a body arrives at some rate, until it is complete or
// a read exceeds its deadline.
type slowConn struct {
	recorder
	rate int // bytes a second
	left int

	mu       sync.Mutex
	deadline time.Time
}

func newDripping(size, rate int) *slowConn {
	return &slowConn{recorder: recorder{header: make(http.Header), done: make(chan struct{})}, left: size, rate: rate}
}

func (d *slowConn) SetReadDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deadline = t
	return nil
}

func (d *slowConn) until() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deadline
}

func (d *slowConn) Read(b []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	wait := time.Second
	if d.rate == 0 {
		wait = 24 * time.Hour
	}
	if end := d.until(); !end.IsZero() && time.Until(end) < wait {
		time.Sleep(time.Until(end))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(wait)
	n := min(len(b), d.left, d.rate)
	for i := range b[:n] {
		b[i] = ' '
	}
	d.left -= n
	return n, nil
}

// A body may take any time if it arrives at the required rate.
func TestSlowBodies(t *testing.T) {
	for name, c := range map[string]struct {
		size, rate int
		status     int
	}{
		"large and steady":         {2 << 20, 2 * bodyRate, http.StatusBadRequest}, // a blank body is invalid
		"small and slow":           {1000, 100, http.StatusBadRequest},
		"nothing comes":            {1000, 0, http.StatusRequestTimeout},
		"a drop now and then":      {1 << 20, 10, http.StatusRequestTimeout},
		"large and a bit too slow": {2 << 20, bodyRate / 2, http.StatusRequestTimeout},
		"nothing comes, in chunks": {-1, 0, http.StatusRequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
				d := newDripping(c.size, c.rate)
				r := request(t, d)
				r.ContentLength = int64(c.size)
				began := time.Now()
				s.ServeHTTP(d, r)
				if d.code() != c.status {
					t.Errorf("status %d after %s, want %d", d.code(), time.Since(began), c.status)
				}
				if took := time.Since(began); c.status == http.StatusRequestTimeout && took > 2*bodyGrace {
					t.Errorf("the request was held for %s", took)
				}
				if c.status == http.StatusBadRequest && !d.until().IsZero() {
					t.Error("the deadline of the body still applies after the body")
				}
			})
		})
	}
}

// The deadline also holds for requests that are refused before their body was read,
// because net/http reads the body before it answers.
func TestRefusedBodiesAreTimed(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"another type":   func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another method": func(r *http.Request) { r.Method = http.MethodPut },
		"too large":      func(r *http.Request) { r.ContentLength = 1 << 40 },
		"GET":            func(r *http.Request) { r.Method = http.MethodGet },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
				d := newDripping(1000, 0)
				r := request(t, d)
				r.ContentLength = 1000
				change(r)
				began := time.Now()
				s.ServeHTTP(d, r)
				if d.code() < 400 || d.until().IsZero() || d.until().After(began.Add(bodyGrace)) {
					t.Errorf("status %d, and the body may come until %s after", d.code(), d.until().Sub(began))
				}
			})
		})
	}
}

// The body of a GET is read to its end, because only then is the end of the connection
// noticed.
func TestBodyOfGET(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	session := newSessionClient(t, s).session
	for _, c := range []struct{ size, want int }{
		{freeBody + 1, http.StatusRequestEntityTooLarge},
		{10, http.StatusNoContent},
	} {
		body := strings.NewReader(strings.Repeat("x", c.size))
		r := request(t, body)
		r.Method = http.MethodDelete
		r.Header.Set(wire.HeaderSession, session)
		if w := do(s, r); w.Code != c.want || body.Len() != 0 {
			t.Errorf("%d bytes: status %d with %d bytes unread, want %d", c.size, w.Code, body.Len(), c.want)
		}
	}
}
