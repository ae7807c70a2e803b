package frontend

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// pipeListener is a listener without a network, as synctest needs it.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error   { p.once.Do(func() { close(p.over) }); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// overHTTP2 serves s over HTTP/2, in a bubble.
func overHTTP2(t *testing.T, s *Server, f func(t *testing.T, client *http.Client)) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	certificate.Close()
	synctest.Test(t, func(t *testing.T) {
		p := &pipeListener{conns: make(chan net.Conn), over: make(chan struct{})}
		srv := &http.Server{Handler: s, TLSConfig: &tls.Config{Certificates: certificate.TLS.Certificates}}
		served := make(chan error, 1)
		go func() { served <- srv.ServeTLS(p, "", "") }()
		transport := &http.Transport{
			ForceAttemptHTTP2: true, ExpectContinueTimeout: time.Second,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is made by httptest
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				p.conns <- theirs
				return ours, nil
			},
		}
		f(t, &http.Client{Transport: transport})
		transport.CloseIdleConnections()
		srv.Close()
		<-served
	})
}

// The deadlines of a body and of a write must not end a long call: over HTTP/2 a deadline
// ends the stream even if nothing is being written.
func TestLongCallsOverHTTP2(t *testing.T) {
	const long = 10 * writeTimeout
	h := handlerFunc(func(ctx context.Context, c *call.Call) (call.Result, error) {
		select {
		case <-time.After(long):
			return own(`{"content":[]}`)
		case <-ctx.Done():
			return call.Result{}, ctx.Err()
		}
	})
	for name, header := range map[string]http.Header{
		"JSON":       {"Accept": {"application/json"}},
		"events":     {"Accept": {"text/event-stream"}},
		"asks first": {"Accept": {"application/json"}, "Expect": {"100-continue"}},
	} {
		t.Run(name, func(t *testing.T) {
			overHTTP2(t, New(Options{Handler: h, Info: wire.Raw(`{}`)}), func(t *testing.T, client *http.Client) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://gateway.test/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`))
				if err != nil {
					t.Fatal(err)
				}
				r.Header = header.Clone()
				r.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.ProtoMajor != 2 || !strings.Contains(string(body), `"result":{"content":[]}`) {
					t.Errorf("%s %s: %s, %v", resp.Proto, resp.Status, body, err)
				}
			})
		})
	}
}

// A client that does not read a stream loses only that stream over HTTP/2.
func TestSlowClientOverHTTP2(t *testing.T) {
	f := &floodHandler{}
	s := New(Options{Handler: f, Info: wire.Raw(`{}`)})
	overHTTP2(t, s, func(t *testing.T, client *http.Client) {
		send := func(r *http.Request) *http.Response {
			t.Helper()
			r.URL.Scheme = "https"
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		stuck := send(callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"%s}}`, wire.EraModern))
		defer stuck.Body.Close()
		began := time.Now()
		for s.calls.Held() > 0 { // synctest advances the clock when all goroutines wait
			time.Sleep(time.Second)
			if time.Since(began) > 10*writeTimeout {
				t.Fatal("the request is still held")
			}
		}
		if f.cause != errClientGone || f.sent > 16*stream.MaxQueue {
			t.Errorf("the call ended with %v after %d bytes", f.cause, f.sent)
		}
		other := send(request(t, strings.NewReader(pingBody)))
		defer other.Body.Close()
		if text, err := io.ReadAll(other.Body); err != nil || other.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", other.Status, text, err)
		}
	})
}

// A short deadline for one piece must not end the stream later.
func TestHurriedClientOverHTTP2(t *testing.T) {
	h := handlerFunc(func(_ context.Context, c *call.Call) (call.Result, error) {
		c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":1,"progress":1,"message":"`+strings.Repeat("x", 4*freeBody)+`"}`))
		time.Sleep(10 * writeHurried)
		return own(`{"content":[]}`)
	})
	s := New(Options{Handler: h, Info: wire.Raw(`{}`)})
	s.unsent = fairshare.New(0, 0)
	overHTTP2(t, s, func(t *testing.T, client *http.Client) {
		r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood"%s}}`, wire.EraModern)
		r.URL.Scheme = "https"
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), `"result"`) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
}
