package frontend

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/wire"
)

// talk is a client over HTTP+SSE.
type talk struct {
	s    *Server
	post string // the URL of messages
	end  func() // closes the stream, and waits until it is
}

// openTalk opens a stream. It is called in a bubble.
func openTalk(t *testing.T, s *Server) *talk {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway.test/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &recorder{header: make(http.Header), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		s.ServeSSE(w, r)
	}()
	synctest.Wait()
	endpoint := regexp.MustCompile(`data: (\S+)`).FindStringSubmatch(w.written())
	if endpoint == nil {
		t.Fatalf("status %d, and no endpoint: %s", w.code(), w.written())
	}
	return &talk{s, "http://gateway.test" + endpoint[1], func() { leave(); <-w.done }}
}

// send posts a body.
func (c *talk) send(t *testing.T, body io.Reader) *httptest.ResponseRecorder {
	r := request(t, body)
	u, err := r.URL.Parse(c.post)
	if err != nil {
		t.Error(err)
	}
	r.URL = u
	w := httptest.NewRecorder()
	c.s.ServeSSE(w, r)
	return w
}

const initializeBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`

// A session does not begin any more when its stream has ended, however late the
// client says what it wants.
func TestSessionDoesNotOutliveItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScript(), Info: wire.Raw(`{}`)})
		c := openTalk(t, s)
		body, rest := io.Pipe()
		answered := make(chan *httptest.ResponseRecorder)
		go func() { answered <- c.send(t, body) }()
		io.WriteString(rest, initializeBody[:20])
		synctest.Wait()
		c.end()
		io.WriteString(rest, initializeBody[20:])
		rest.Close()
		if w := <-answered; w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotFound {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if n := len(s.sessions.byID); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
