package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"mcpgateway/internal/advice"
)

// loginPath is the path of the redirect URI of Login.
const loginPath = "/callback"

// Login lets the user of this machine give a grant for the upstream of s. The grant
// belongs to call.Anonymous, to call.Local and to requests without a principal. Login
// listens on loopback at the port, 0 for any, calls show with the URL to open in a
// browser, and returns when the grant is stored or refused, or when ctx ends.
func Login(ctx context.Context, s *Source, port int, show func(url string)) error {
	u, ok := s.tokens.(*user)
	if !ok {
		return fmt.Errorf("the upstream %s needs no grant: its configuration does not have auth: {kind: user}", s.o.Upstream)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program uses the port %d of 127.0.0.1, to which the browser is to return: choose another port with --port, or end that program", port)
	}
	if err != nil {
		return fmt.Errorf("cannot listen for the response: %w; choose another port with --port", err)
	}
	defer l.Close()
	key := localKey
	f, err := u.begin(ctx, key, fmt.Sprintf("http://%s%s", l.Addr(), loginPath), "")
	if err != nil {
		return withCause(err)
	}
	if port == 0 { // the next login has another port, so this registration is useless then
		defer f.client.forget(context.WithoutCancel(ctx), u.o.Store, f.server.Issuer, f.redirect)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flowTime, fmt.Errorf("the browser did not return within %s", flowTime))
	defer cancel()
	done := make(chan error, 1)
	var used atomic.Bool
	srv := &http.Server{ReadHeaderTimeout: requestTime, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != loginPath || r.Method != http.MethodGet || r.Host != l.Addr().String() {
			http.NotFound(rw, r)
			return
		}
		if r.URL.Query().Get("state") != f.state {
			page(rw, http.StatusBadRequest, "This response is unknown. Run the command again.")
			return
		}
		if used.Swap(true) {
			page(rw, http.StatusBadRequest, "This response was used already.")
			return
		}
		err := u.finish(ctx, key, f, r.URL.Query())
		done <- err
		if err != nil {
			page(rw, http.StatusForbidden, refusalText(err, err.Error(), "run gateway login "+s.o.Upstream+advice.ConfigFlag()+" again"))
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
	last, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // time to send the page
	defer end()
	if srv.Shutdown(last) != nil {
		_ = srv.Close()
	}
	<-served
	return withCause(err)
}

// withCause adds the details of an error to its text, for the user of this machine.
func withCause(err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.described != "":
		return fmt.Errorf("%w; it says %q", err, e.described)
	case e.cause != nil:
		return fmt.Errorf("%w (%v)", err, e.cause)
	}
	return err
}
