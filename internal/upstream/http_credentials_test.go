package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// keyring provides credentials and moves to the next token after each refusal.
type keyring struct {
	mu      sync.Mutex
	n       int   // of the current token
	last    int   // of the last token
	fails   error // error of Headers
	refused []string
}

func (k *keyring) Headers(_ context.Context, who *call.Principal) (http.Header, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fails != nil {
		return nil, k.fails
	}
	subject := "gateway"
	if who != nil {
		subject = who.Subject
	}
	return http.Header{"Authorization": {fmt.Sprintf("Bearer %s-%d", subject, k.n)}, "X-User": {subject}}, nil
}

func (k *keyring) Refused(_ context.Context, _ *call.Principal, sent http.Header, status int, answer http.Header) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused = append(k.refused, fmt.Sprint(status, " ", sent.Get("Authorization"), " ", answer.Get("WWW-Authenticate")))
	if k.n == k.last {
		return false, errors.New("there is no other token")
	}
	k.n++
	return true, nil
}

// guarded passes only requests with token number *n to h.
func guarded(h http.Handler, n *int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var subject string
		var got int
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer %7s-%d", &subject, &got); err != nil || got != *n {
			w.Header().Set("WWW-Authenticate", "Bearer scope=\"x\"")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func with(k httpconn.Credentials) func(*Options) { return func(o *Options) { o.HTTP.Credentials = k } }

func callOf(subject string) *call.Call {
	c := tool("a", `{"name":"x"}`, nil)
	c.Principal = &call.Principal{Subject: subject}
	return c
}

// Requests for a call carry the credentials of the call's principal. All other
// requests carry the credentials of the gateway.
func TestCredentialsGoWithEveryRequest(t *testing.T) {
	for _, name := range []string{"legacy", "modern", "HTTP+SSE"} {
		t.Run(name, func(t *testing.T) {
			n := 0
			s := &script{modern: name == "modern", stateful: name == "legacy"}
			server, transport := http.Handler(s), func(*Options) {}
			if name == "HTTP+SSE" {
				server, transport = &sseScript{script: s}, overSSE
			}
			c := converse(t, guarded(server, &n), with(&keyring{}), transport)
			for _, who := range []string{"ann0000", "bob0000"} {
				upstreamtest.Equal(t, "outcome", c.do(t, callOf(who)), c.do(t, callOf(who)))
			}
			c.stop()
			c.waitEnd(t)
			s.mu.Lock()
			defer s.mu.Unlock()
			of := map[string]int{}
			for _, r := range s.seen {
				if r.method != wire.MethodToolsCall && r.header.Get("X-User") != "gateway" {
					t.Errorf("%s carries the credentials of %q", r.method, r.header.Get("X-User"))
				}
				if r.method == wire.MethodToolsCall {
					of[r.header.Get("Authorization")]++
				}
			}
			if len(of) != 2 || of["Bearer ann0000-0"] != 2 || of["Bearer bob0000-0"] != 2 {
				t.Errorf("credentials of the calls: %v", of)
			}
		})
	}
}

// fixedHeaders are credentials that never change.
type fixedHeaders http.Header

func (h fixedHeaders) Headers(context.Context, *call.Principal) (http.Header, error) {
	return http.Header(h), nil
}

func (fixedHeaders) Refused(context.Context, *call.Principal, http.Header, int, http.Header) (bool, error) {
	return false, nil
}

// Credentials replace configured headers in small and large requests. They cannot
// replace protocol or framing headers.
func TestCredentialsReplaceHeaders(t *testing.T) {
	for name, size := range map[string]int{"small": 0, "large": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true}
			h := serve(t, s)
			c, err := tryConverse(t, strings.Replace(h.URL, "http://", "http://me:secret@", 1), nil, legacyEra, func(o *Options) {
				o.HTTP.Headers = map[string]string{"X-User": "nobody", "X-Team": "a"}
			}, with(fixedHeaders{
				"Authorization": {"Bearer token"}, "X-User": {"ann"}, "User-Agent": {"x"},
				"Transfer-Encoding": {"chunked"}, "Mcp-Session-Id": {"mine"}, "Mcp-Param-X": {"1"},
			}))
			if err != nil {
				t.Fatal(err)
			}
			upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"`+strings.Repeat("x", size)+`"}`, nil)), doneResult)
			got := s.got(wire.MethodToolsCall)[0].header
			for name, want := range map[string]string{
				"Authorization": "Bearer token", "X-User": "ann", "X-Team": "a", "User-Agent": "x", "Mcp-Session-Id": "session-1", "Mcp-Param-X": "",
			} {
				upstreamtest.Equal(t, name, strings.Join(got.Values(name), " | "), want)
			}
		})
	}
}

func TestRefusedCredentials(t *testing.T) {
	n := 1
	s := &script{modern: true, caps: `{}`}
	k := &keyring{last: 4}
	c := converse(t, guarded(s, &n), with(k)) // the probe is refused and sent once more
	n = 2
	upstreamtest.Equal(t, "call that is sent again", c.do(t, callOf("ann0000")), doneResult)
	upstreamtest.Equal(t, "calls that reached the server", len(s.got(wire.MethodToolsCall)), 1)
	n = 9 // all tokens are invalid
	upstreamtest.Equal(t, "a call that is refused twice", c.do(t, callOf("ann0000")), "call error: the server refuses the gateway's credentials (HTTP 401)")
	upstreamtest.Equal(t, "call without another token", c.do(t, callOf("ann0000")), "call error: there is no other token")
	k.mu.Lock()
	defer k.mu.Unlock()
	if want := `401 Bearer gateway-0 Bearer scope="x"`; len(k.refused) < 4 || k.refused[0] != want {
		t.Errorf("refused tokens %q, want %q and more", k.refused, want)
	}
	for _, r := range k.refused[1:] {
		if !strings.HasPrefix(r, "401 Bearer ann0000-") {
			t.Errorf("refused token %q", r)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	n := 0
	k := &keyring{}
	s := &script{modern: true, caps: `{}`}
	r := start(t, *testOptions(t, serve(t, guarded(s, &n)).URL, with(k)))
	r.watch.wait(t, isReady)
	k.mu.Lock()
	k.fails = errors.New("the token endpoint answered HTTP 400 (invalid_client)")
	k.mu.Unlock()
	cl := callOf("ann0000")
	cl.Client.Revision = wire.LatestModern
	_, err := r.Do(t.Context(), cl)
	e, ok := err.(*wire.Error)
	if !ok || e.Code != wire.CodeInternal || !wire.ValueOf(e.Data).Get("reason").IsString(k.fails.Error()) || wire.ValueOf(e.Data).Get("retryable").Bool() {
		t.Errorf("got %v", err)
	}
	upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 0)
}

// absent is an error of credentials whose server or store cannot be reached.
type absent struct{ cause error }

func (*absent) Error() string   { return "the grants cannot be read" }
func (a *absent) Unwrap() error { return a.cause }
func (*absent) HasPassed() bool { return false }
func (*absent) Temporary() bool { return true }

// An error of the credentials is no advice about the address of the server, which the request never reached. Only operators read
// its cause.
func TestUnreachableCredentials(t *testing.T) {
	for name, cause := range map[string]error{
		"refused":   fmt.Errorf("dial tcp 127.0.0.1:6379: %w", syscall.ECONNREFUSED),
		"unknown":   &net.DNSError{Err: "no such host", Name: "issuer.invalid", IsNotFound: true},
		"untrusted": fmt.Errorf("https://issuer.test: %w", x509.UnknownAuthorityError{}),
		"slow":      fmt.Errorf("https://issuer.test: %w", context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			k := &keyring{fails: &absent{cause}}
			s := &script{modern: true, caps: `{}`}
			o := testOptions(t, serve(t, guarded(s, &n)).URL, with(k))
			r := start(t, *o)
			down := r.watch.wait(t, isDown)
			advice := diagnose.Show(o.HTTP.URL) + ": the grants cannot be read: " + cause.Error()
			upstreamtest.Equal(t, "reason", down.Reason, "the grants cannot be read")
			upstreamtest.Equal(t, "advice", down.Advice, advice)

			k.mu.Lock()
			k.fails = nil
			k.mu.Unlock()
			if _, err := r.Do(t.Context(), callOf("ann0000")); err != nil { // the call triggers an attempt
				t.Fatal(err)
			}
			k.mu.Lock()
			k.fails = &absent{cause}
			k.mu.Unlock()
			_, err := r.Do(t.Context(), callOf("ann0000"))
			e, ok := err.(*wire.Error)
			if !ok || !wire.ValueOf(e.Data).Get("reason").IsString("the grants cannot be read") || !wire.ValueOf(e.Data).Get("retryable").Bool() || e.Detail != advice {
				t.Errorf("got %v with %s for operators %q, want %q", err, e.Data, e.Detail, advice)
			}
			upstreamtest.Equal(t, "calls", len(s.got(wire.MethodToolsCall)), 1)
		})
	}
}

// slow provides no credentials in time.
type slow struct{ keyring }

func (*slow) Headers(ctx context.Context, _ *call.Principal) (http.Header, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server is not said to be slow while the gateway waits for its credentials.
func TestSlowCredentials(t *testing.T) {
	for _, era := range []wire.Era{wire.EraUnknown, wire.EraModern, wire.EraLegacy} {
		n := 0
		o := testOptions(t, serve(t, guarded(&script{modern: true}, &n)).URL, with(&slow{}))
		o.Era, o.Limits.Timeout = era, 50*time.Millisecond
		down := start(t, *o).watch.wait(t, isDown)
		upstreamtest.Equal(t, "reason", down.Reason, "there were no credentials for the server in time")
		upstreamtest.Equal(t, "advice", down.Advice, diagnose.Show(o.HTTP.URL)+": there were no credentials for the server in time: context deadline exceeded")
	}
}

// once provides credentials for one request.
type once struct {
	keyring
	then error // of the requests after the first one
}

func (o *once) Headers(ctx context.Context, who *call.Principal) (http.Header, error) {
	h, err := o.keyring.Headers(ctx, who)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = o.then
	return h, err
}

// Operators also read why there are no credentials for a list.
func TestListWithoutCredentials(t *testing.T) {
	n := 0
	s := &script{modern: true}
	o := testOptions(t, serve(t, guarded(s, &n)).URL, with(&once{then: &absent{errors.New("nothing listens on issuer.test:443")}}))
	r := start(t, *o)
	shot := r.watch.wait(t, func(s connector.Snapshot) bool { return s.State == connector.Degraded })
	upstreamtest.Equal(t, "reason", shot.Reason, "tools/list: the grants cannot be read")
	upstreamtest.Equal(t, "advice", shot.Advice, "tools/list: "+diagnose.Show(o.HTTP.URL)+": the grants cannot be read: nothing listens on issuer.test:443")
	upstreamtest.Equal(t, "detail", shot.Failed.Tools.Detail, shot.Advice)
}

// Clients learn that an upstream is down because the gateway has no credentials for
// it.
func TestNoCredentialsAtStart(t *testing.T) {
	n := 0
	k := &keyring{fails: errors.New("this server wants a grant of its user")}
	s := &script{modern: true, caps: `{}`}
	r := start(t, *testOptions(t, serve(t, guarded(s, &n)).URL, with(k)))
	down := r.watch.wait(t, isDown)
	upstreamtest.Equal(t, "reason", down.Reason, k.fails.Error())
	k.mu.Lock()
	k.fails = nil
	k.mu.Unlock()
	_, err := r.Do(t.Context(), callOf("ann0000")) // the call triggers an attempt
	if err != nil {
		t.Errorf("got %v", err)
	}
}
