package credentials

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"mcpgateway/internal/oauthmeta"
)

// Error is the reason why there are no credentials for a call. Its text is safe for
// clients. The wrapped error is for the log: it may contain hosts and addresses, but no
// secrets.
type Error struct {
	text  string
	cause error
	// needsGrant says that the principal has to give a grant first, see
	// [Source.NeedsGrant].
	needsGrant bool
	// final says that the same request would fail again, since the grant is invalid.
	final bool
	// away says that the store that replicas share does not answer.
	away bool
	// temporary is that of [Error.Temporary], which is also true for away.
	temporary bool
	// unasked says that there was no connection for the request, see [tokenCache.get].
	unasked bool
	// unnamed says that the server has no metadata at all, see [NamesNoServer].
	unnamed bool
	code    string // the error code of the server, "" for none
	// described is the description of the error by an authorization server, "" for none. It came through a browser, so
	// anybody may have written it: only [Login] shows it.
	described string
	// passed reports whether there is a grant now; nil if a grant is not what was missing.
	passed func() bool
}

// Error returns the text for clients.
func (e *Error) Error() string { return e.text }

// Unwrap returns the details for the log, nil for none.
func (e *Error) Unwrap() error { return e.cause }

// HasPassed reports whether the reason is gone, since the principal has given the grant that was missing.
func (e *Error) HasPassed() bool { return e.passed != nil && e.passed() }

// Temporary reports whether the same request may succeed later: a server or the store does not answer now, or says that the fault
// is its own.
func (e *Error) Temporary() bool { return e.temporary || e.away }

// isTemporary reports whether a status means that the same request may succeed later.
func isTemporary(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// IsAway reports whether an error says that the store which replicas share does not answer. The same may succeed later.
func IsAway(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.away
}

// NamesNoServer reports whether an error says that a server has no metadata of OAuth at all. It may not use OAuth.
func NamesNoServer(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.unnamed
}

func failf(format string, args ...any) *Error { return &Error{text: fmt.Sprintf(format, args...)} }

// because adds details for the log.
func (e *Error) because(cause error) *Error {
	e.cause = cause
	return e
}

// refusalText says why no access was granted, and after a refusal of the user how to be asked once more.
func refusalText(err error, why, again string) string {
	text := "No access was granted: " + why + "."
	var known *Error
	if errors.As(err, &known) && known.code == codeDenied {
		text += " Access was declined there, by you or by its rules. To be asked once more, " + again + "."
	}
	return text
}

// refusedURL is the error for a URL of a server that the guard refuses.
func refusedURL(what, text string, why error) *Error {
	return failf("%s that the server names %v", what, why).because(fmt.Errorf("it names %.200q", text))
}

// unreachable is the error for a request without a response.
func unreachable(what string, at *url.URL, err error) *Error {
	cause := fmt.Errorf("%s: %w", withoutQuery(at), withoutURL(err))
	var timeout net.Error
	var op *net.OpError
	dialing := errors.As(err, &op) && op.Op == "dial"
	var e *Error
	switch {
	case errors.Is(err, errAddress):
		return failf("%s %v", what, errAddress).because(cause)
	case dialing && errors.Is(err, syscall.ECONNREFUSED): // by the host of the URL, and not a proxy
		e = failf("%s cannot be reached", what).because(notListening(oauthmeta.HostPort(at)))
		e.unasked = true
	case errors.As(err, &timeout) && timeout.Timeout():
		e = failf("%s does not answer in time", what).because(cause)
	default:
		e = failf("%s cannot be reached", what).because(cause)
		e.unasked = dialing
	}
	e.temporary = true
	return e
}

// notListening is the error of a host and port that refuse connections.
type notListening string

// Error implements error.
func (n notListening) Error() string { return "nothing listens on " + string(n) }

// Unwrap returns the error of the system.
func (notListening) Unwrap() error { return syscall.ECONNREFUSED }

// withoutURL removes the URL that net/http adds to errors, since its query may be secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// withoutQuery formats a URL without the parts that may be secret.
func withoutQuery(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return s.String()
}
