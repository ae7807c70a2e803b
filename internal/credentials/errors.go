package credentials

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// Error is why there are no credentials for a call. Its text is fit for clients.
// What it unwraps to is for the log alone: it may name hosts and addresses, and
// holds no secret either.
type Error struct {
	text  string
	cause error
	// grant says that the principal has to give a grant first, see [Source.Wants].
	needsGrant bool
	// final says that the same request would fail again: a grant is not good any
	// more, or never was.
	final bool
	code  string // that a server gave, "" for none
}

// Error returns what clients may read.
func (e *Error) Error() string { return e.text }

// Unwrap returns the details, nil for none.
func (e *Error) Unwrap() error { return e.cause }

func failf(format string, args ...any) *Error { return &Error{text: fmt.Sprintf(format, args...)} }

// because returns the error with details for the log.
func (e *Error) because(cause error) *Error {
	e.cause = cause
	return e
}

// refused is why something that a server has named is not gone to.
func refusedURL(what, text string, why error) *Error {
	return failf("%s that the server names %v", what, why).because(fmt.Errorf("it names %.200q", text))
}

// unreached is why there was no answer.
func unreachable(what string, at *url.URL, err error) *Error {
	cause := fmt.Errorf("%s: %w", withoutQuery(at), withoutURL(err))
	var timeout net.Error
	switch {
	case errors.Is(err, errAddress):
		return failf("%s %v", what, errAddress).because(cause)
	case errors.As(err, &timeout) && timeout.Timeout():
		return failf("%s does not answer in time", what).because(cause)
	default:
		return failf("%s cannot be reached", what).because(cause)
	}
}

// bare takes the URL off that net/http puts before an error: its query may be
// secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// shown is a URL without what may be secret in it.
func withoutQuery(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return s.String()
}
