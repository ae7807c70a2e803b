package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// stdioClient is a client on stdio.
type stdioClient struct {
	in   *io.PipeWriter
	done chan struct{} // closed when ServeStdio has returned

	mu  sync.Mutex
	out bytes.Buffer
	err error // the error of ServeStdio
}

func startStdio(ctx context.Context, s *Server) *stdioClient {
	r, w := io.Pipe()
	c := &stdioClient{in: w, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		err := s.ServeStdio(ctx, call.Local, r, c, 10*time.Second)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
	}()
	return c
}

// Write takes the output of the server.
func (c *stdioClient) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

func (c *stdioClient) write(t *testing.T, lines string) {
	t.Helper()
	if _, err := io.WriteString(c.in, lines); err != nil {
		t.Errorf("the server does not read: %v", err)
	}
}

// take returns the output since the last take, and whether ServeStdio has returned.
func (c *stdioClient) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.out.Reset()
	select {
	case <-c.done:
		if c.err != nil {
			return c.out.String() + "[end: " + c.err.Error() + "]\n"
		}
		return c.out.String() + "[end]\n"
	default:
		return c.out.String() + "[open]\n"
	}
}

// failingInput is an input that fails.
type failingInput struct{ err error }

func (r failingInput) Read([]byte) (int, error) { return 0, r.err }

// failingOutput is an output that fails.
type failingOutput struct{ err error }

func (d failingOutput) Write([]byte) (int, error) { return 0, d.err }

// An input or output that fails is an error. A client that ends is not.
func TestStdioErrors(t *testing.T) {
	broken := errors.New("broken")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for name, c := range map[string]struct {
		in   io.Reader
		out  io.Writer
		want string
	}{
		"end of input":  {strings.NewReader(ping), io.Discard, "<nil>"},
		"no input":      {strings.NewReader(""), failingOutput{broken}, "<nil>"},
		"broken input":  {failingInput{broken}, io.Discard, "read messages: broken"},
		"broken output": {strings.NewReader(ping), failingOutput{broken}, "the client does not read what is written to it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
			got := "<nil>"
			if err := s.ServeStdio(t.Context(), call.Local, c.in, c.out, time.Minute); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("error %s, want %s", got, c.want)
			}
		})
	}
}

// A line over the limit is refused, and the next one is served.
func TestStdioLongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Limits: Limits{MaxMessage: 100}})
		c := startStdio(t.Context(), s)
		c.write(t, strings.Repeat("x", 1000)+"\n"+pingBody+"\n")
		synctest.Wait()
		want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: the message is larger than the limit of 100 bytes"}}
{"jsonrpc":"2.0","id":1,"result":{}}
[open]
`
		if got := withoutRequestIDs(t, c.take()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		c.in.Close()
		<-c.done
	})
}

// slowOutput is an output that accepts one write at a time, on request.
type slowOutput struct {
	take chan []byte
	end  chan struct{}
}

func (w slowOutput) Write(b []byte) (int, error) {
	select {
	case w.take <- bytes.Clone(b):
		return len(b), nil
	case <-w.end:
		return 0, io.ErrClosedPipe
	}
}

// Answers wait for a slow client. Other messages are dropped if the client falls too far
// behind. The queue is bounded.
func TestStdioSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: countingHandler{}, Info: wire.Raw(`{}`)})
		r, in := io.Pipe()
		out := slowOutput{make(chan []byte), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- s.ServeStdio(t.Context(), call.Local, r, out, time.Minute) }()
		const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}` + "\n"
		if _, err := io.WriteString(in, initialize+
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":100,"size":100000,"pad":200000}}}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{"n":100,"size":100000,"pad":200000}}}`+"\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // of the bubble's clock: the calls are over
		synctest.Wait()
		in.Close()
		var got bytes.Buffer
		for open := true; open; {
			select {
			case b := <-out.take:
				got.Write(b)
			case err := <-served:
				if err != nil {
					t.Error(err)
				}
				open = false
			}
		}
		if got.Len() > 2*stream.MaxQueue || strings.Count(got.String(), `"result"`) != 3 {
			t.Errorf("%d bytes with %d answers, want at most %d with 3", got.Len(), strings.Count(got.String(), `"result"`), 2*stream.MaxQueue)
		}
	})
}

// The running requests of one peer are bounded. The next one is refused, and all others
// are answered.
func TestStdioTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newScriptHandler()
		s := New(Options{Handler: h, Info: wire.Raw(`{}`)})
		c := startStdio(t.Context(), s)
		c.write(t, `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n")
		for i := range maxPeerCalls {
			c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{"for":"x"}}}`+"\n", i))
		}
		synctest.Wait()
		c.take()
		c.write(t, `{"jsonrpc":"2.0","id":"late","method":"ping"}`+"\n")
		synctest.Wait()
		want := `{"jsonrpc":"2.0","id":"late","error":{"code":-32603,"message":"too many requests of this client are running"}}` + "\n[open]\n"
		if got := withoutRequestIDs(t, c.take()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		close(h.release("x"))
		synctest.Wait()
		if got := strings.Count(c.take(), `"result"`); got != maxPeerCalls {
			t.Errorf("%d requests were answered, want %d", got, maxPeerCalls)
		}
		c.in.Close()
		<-c.done
	})
}
