package upstream

import (
	"context"
	"errors"
	"net/url"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/transport/httpconn"
)

// Held returns the name of the session for the calls of c's client if it belongs to that client or
// principal and the server keeps state in it: of several gateways one has to hold it. It is "" for all other
// sessions. The error is that of [Sessions.Session].
func (s *Sessions) Held(ctx context.Context, c *call.Call) (string, error) {
	kind, name, err := s.resolve(ctx, c)
	if err != nil || kind != ofClient && kind != ofPrincipal || s.stateless(c) {
		return "", err
	}
	return name, nil
}

// IsHeld reports whether a name of a session is one that Held returns.
func IsHeld(name string) bool { return name != "" && (name[0] == ofClient || name[0] == ofPrincipal) }

// IsOpen reports whether there is a session with this name.
func (s *Sessions) IsOpen(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name] != nil
}

// Failure is the error of a call that ends before it reaches the server, or while the gateway that has
// its session cannot be reached.
func (s *Sessions) Failure(reason string, retryable bool) error {
	return s.catalogSession.Failure(reason, time.Now(), retryable, 0)
}

// RetryLater is Failure for a call that did not begin, and may succeed after a time.
func (s *Sessions) RetryLater(reason string, after time.Duration) error {
	return s.catalogSession.Failure(reason, time.Now(), true, after)
}

// GiveUp reports whether no call runs in a session. If nothing else uses it either, GiveUp ends it.
func (s *Sessions) GiveUp(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[name]
	if b != nil && b.users == 0 {
		s.close(name)
	}
	return b == nil || b.calls == 0
}

// errOtherServer refuses to end a session at a URL that is not configured.
var errOtherServer = errors.New("the session is at a URL that the upstream does not have")

// EndLeft ends a session that another process has left open at the server. It sends credentials to configured URLs only.
func (s *Sessions) EndLeft(ctx context.Context, left httpconn.OpenSession) error {
	if s.o.HTTP == nil {
		return errOtherServer
	}
	urls := []*url.URL{s.o.HTTP.URL}
	for _, u := range s.o.URLs {
		urls = append(urls, u.URL)
	}
	for _, u := range urls {
		if httpconn.RequestURL(u).String() == left.URL {
			at := *s.o.HTTP
			at.URL = u
			return transport.EndSession(ctx, s.o.conversation(), &at, left)
		}
	}
	return errOtherServer
}
