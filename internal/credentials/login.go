package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Login lets the user of this machine give a grant for the upstream of s, which is
// kept as that of call.Anonymous, call.Local and the gateway itself. It listens on loopback at the port, 0 for any,
// hands show the URL that is to be opened in a browser, and returns when the grant
// is kept, when it was refused, or when ctx ends.
func Login(ctx context.Context, s *Source, port int, show func(url string)) error {
	u, ok := s.tokens.(*user)
	if !ok {
		return fmt.Errorf("the upstream %s asks for no grants of users; its configuration would need auth: {kind: user}", s.o.Upstream)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("no page can be served for the answer: %w; choose another port with --port", err)
	}
	defer l.Close()
	key := localKey
	f, err := u.begin(ctx, key, fmt.Sprintf("http://%s/callback", l.Addr()), "")
	if err != nil {
		return withCause(err)
	}
	if port == 0 { // the next login has another port: this registration would never be used again
		defer f.client.forget(u.o.Store, f.server.Issuer, f.redirect)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flowTime, fmt.Errorf("nobody has come back within %s", flowTime))
	defer cancel()
	done := make(chan error, 1)
	var used atomic.Bool
	srv := &http.Server{ReadHeaderTimeout: requestTime, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/callback" || r.Method != http.MethodGet || r.Host != l.Addr().String() {
			http.NotFound(rw, r)
			return
		}
		if r.URL.Query().Get("state") != f.state {
			page(rw, http.StatusBadRequest, "This answer belongs to nothing that was begun here.")
			return
		}
		if used.Swap(true) {
			page(rw, http.StatusBadRequest, "This answer was used already.")
			return
		}
		err := u.finish(ctx, key, f, r.URL.Query())
		done <- err
		if err != nil {
			page(rw, http.StatusForbidden, "No access was granted: "+err.Error()+".")
			return
		}
		page(rw, http.StatusOK, fmt.Sprintf("Access to %s is granted. You can close this page.", s.o.Upstream))
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	show(f.url())
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for the page that says so
	defer end()
	if srv.Shutdown(last) != nil {
		_ = srv.Close()
	}
	<-served
	return withCause(err)
}

// whole is an error with its details, for the user of this machine.
func withCause(err error) error {
	var e *Error
	if errors.As(err, &e) && e.cause != nil {
		return fmt.Errorf("%w (%v)", err, e.cause)
	}
	return err
}
