package httpconn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

func TestPayload(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "the largest that is copied": call.MaxReused, "large": call.MaxReused + 1} {
		t.Run(name, func(t *testing.T) {
			m := wire.Message{ID: wire.IDOf("7"), Method: wire.MethodToolsCall, Params: bytes.Repeat([]byte("1"), size)}
			want := m.Append(nil)
			p := NewPayload(&m)
			check(t, "size", p.size(), len(want))
			a, _ := p.body()
			b, _ := p.body()
			c, _ := p.body()
			var part [3]byte
			if n, err := a.Read(part[:]); n != 3 || err != nil || p.Sent.Load() {
				t.Fatal(n, err, p.Sent.Load())
			}
			a.Close()
			a.Close()
			if n, err := a.Read(part[:]); n != 0 || err != io.ErrClosedPipe {
				t.Errorf("a closed reader gave %d bytes, %v", n, err)
			}
			p.Release() // releases the owner's reference; b and c still read
			got, err := io.ReadAll(b)
			if !bytes.Equal(got, want) || err != nil || !p.Sent.Load() {
				t.Errorf("read %.100q, %v", got, err)
			}
			var written bytes.Buffer
			if n, err := c.(io.WriterTo).WriteTo(&written); n != int64(len(want)) || !bytes.Equal(written.Bytes(), want) || err != nil {
				t.Errorf("wrote %d bytes, %.100q, %v", n, written.Bytes(), err)
			}
			check(t, "holds", p.refs.Load(), 2)
			b.Close()
			c.Close()
			check(t, "holds", p.refs.Load(), 0)
		})
	}
}

// A large request is sent from where it was read.
func TestLargeParamsAreNotCopied(t *testing.T) {
	m := wire.Message{ID: wire.IDOf("7"), Method: wire.MethodToolsCall, Params: bytes.Repeat([]byte("1"), 1<<20)}
	perRun := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			NewPayload(&m).Release()
		}
	}).AllocedBytesPerOp()
	if perRun > 1<<10 {
		t.Errorf("a payload of 1 MiB allocates %d bytes", perRun)
	}
}

// A stream cannot be resumed with an event id that is not a valid header value.
func TestResumableIDs(t *testing.T) {
	for id, want := range map[string]string{"e-1": "e-1", "é": "é", "a\x01b": "", strings.Repeat("x", maxEventID): strings.Repeat("x", maxEventID), strings.Repeat("x", maxEventID+1): ""} {
		check(t, fmt.Sprintf("%.20q", id), resumable(id), want)
	}
}

// drain waits a short time for the end of the stream after the answer, because most
// servers end it then.
func TestDrain(t *testing.T) {
	for name, tc := range map[string]struct {
		ends time.Duration // time until the server ends the stream
		want string
	}{
		"in time":  {time.Millisecond, "whole after 1ms"},
		"too late": {time.Hour, "closed after " + drainTime.String()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				body := &draining{PipeReader: r}
				end := time.AfterFunc(tc.ends, func() { w.Close() })
				defer end.Stop()
				began := time.Now()
				drain(body)
				check(t, "the body", fmt.Sprint(body.how, " after ", time.Since(began)), tc.want)
			})
		})
	}
}

// draining is a body that records how it ends.
type draining struct {
	*io.PipeReader
	how string
}

func (d *draining) Read(b []byte) (int, error) {
	n, err := d.PipeReader.Read(b)
	switch err {
	case io.EOF:
		d.how = "whole"
	case io.ErrClosedPipe:
		d.how = "closed"
	}
	return n, err
}

func TestWaitBeforeResuming(t *testing.T) {
	e := &Endpoint{Max: 100}
	var at Cursor
	body := io.NopCloser(strings.NewReader("id: a\nretry: 5000\ndata:\n\n"))
	if err := e.Events(t.Context(), body, &at, nil); err != ErrStreamEnded {
		t.Fatal(err)
	}
	check(t, "cursor", at, Cursor{Event: "a", retry: 5 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := at.Pause(t.Context(), new(protocol.Backoff)); err != nil {
			t.Fatal(err)
		}
		check(t, "wait", time.Since(began), 5*time.Second)
	})
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A stream of nothing but comments, or of events without data, is read as slowly as one of
// notifications.
func TestCommentsAreThrottled(t *testing.T) {
	for name, piece := range map[string]string{"comments": ":\n", "ids": "id: 1\n\n", "blank lines": "\n", "unknown fields": "x\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pauses := 0
				e := newEndpoint(nil, &protocol.Config{MaxMessage: 1 << 20, Loops: noLoops{}, Throttle: protocol.NewThrottle(func(string, int) { pauses++ })}, &Config{URL: &url.URL{Scheme: "http", Host: "h"}})
				began := time.Now()
				body := io.NopCloser(strings.NewReader(strings.Repeat(piece, 60_000)))
				err := e.Events(t.Context(), body, &Cursor{}, func(*wire.Event) (bool, error) { return false, nil })
				check(t, "error", err, ErrStreamEnded)
				if took := time.Since(began); pauses == 0 || took < time.Second {
					t.Errorf("60000 lines took %v with %d pauses", took, pauses)
				}
			})
		})
	}
}

// The scopes of a challenge are missing if the status and the error say so.
func TestStatusError(t *testing.T) {
	const bearer = `Bearer realm="", resource_metadata="https://h.example/m", scope="a b", error=`
	for _, tc := range []struct {
		status    int
		challenge string
		oauth     bool
		scopes    string
	}{
		{http.StatusForbidden, bearer + `"insufficient_scope"`, true, "[a b]"},
		{http.StatusForbidden, bearer + `"invalid_token"`, true, "[]"},
		{http.StatusUnauthorized, bearer + `"insufficient_scope"`, true, "[]"},
		{http.StatusUnauthorized, `Basic realm="resource_metadata"`, false, "[]"},
		{http.StatusForbidden, "", false, "[]"},
	} {
		r := NewStatusError(&http.Response{StatusCode: tc.status, Header: http.Header{"Www-Authenticate": {tc.challenge}}})
		what := fmt.Sprint(tc.status, " ", tc.challenge)
		check(t, what, r.UsesOAuth(), tc.oauth)
		check(t, what, fmt.Sprint(r.MissingScopes()), tc.scopes)
	}
}

// noLoops detects none.
type noLoops struct{ protocol.LoopDetector }

func (noLoops) Via() string { return "" }

// missing is an error of credentials that has passed.
type missing struct{ error }

func (missing) HasPassed() bool { return true }
func (missing) Temporary() bool { return false }

// The error of a request says whether its credentials are there by now, if they can say so.
func TestUnauthenticatedPasses(t *testing.T) {
	none := errors.New("there is no grant")
	if passed := protocol.PassedOf(unauthenticated(t.Context(), missing{none})); passed == nil || !passed() {
		t.Error("it does not say that the reason is gone")
	}
	if protocol.PassedOf(unauthenticated(t.Context(), none)) != nil {
		t.Error("it says more than it knows")
	}
}
