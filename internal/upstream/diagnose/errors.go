package diagnose

import (
	"errors"
	"fmt"
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/process"
)

// HandshakeError says why a connection did not come about. Only the text of Err is for
// clients; the other members are for the operator.
type HandshakeError struct {
	Err               error
	Words             process.Words // of the server's standard error
	NonProtocolOutput bool          // the server printed text that is not MCP
	Unanswered        bool          // the server ended before it answered
}

func (e *HandshakeError) Error() string { return e.Err.Error() }

func (e *HandshakeError) Unwrap() error { return e.Err }

// EndedError says why the gateway has ended a program. Only the text of Err is for clients.
type EndedError struct {
	Err   error
	Words process.Words // of its standard error
}

func (e *EndedError) Error() string { return e.Err.Error() }

func (e *EndedError) Unwrap() error { return e.Err }

// StandardError quotes a line of a program's standard error.
func StandardError(line string, isError bool) string {
	if isError {
		return fmt.Sprintf("its standard error says %q", line)
	}
	return fmt.Sprintf("the last line of its standard error is %q", line)
}

// ErrHandshakeTimeout means that a server did not answer the handshake in time.
var ErrHandshakeTimeout = errors.New("the server did not introduce itself")

// LineTooLongError ends a conversation in which the server writes a line without end.
type LineTooLongError struct{ Limit int64 }

func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("the server wrote more than %d bytes without the end of a line", e.Limit)
}

// IsLineTooLong reports whether err is or wraps a *LineTooLongError.
func IsLineTooLong(err error) bool {
	_, is := errors.AsType[*LineTooLongError](err)
	return is
}

// HTTPError is an HTTP response whose status is not a success.
type HTTPError interface {
	error
	StatusCode() int
	// ServerMessage returns the message of the JSON-RPC error in the body, or else the beginning of a body that is plain
	// text or JSON, "" if there is none.
	ServerMessage() string
	// ServerRequestID returns the id of the request that the server gave the response, as its log may have it, "" for
	// none.
	ServerRequestID() string
	// UsesOAuth reports whether the challenge of the response names the metadata of a
	// protected resource (RFC 9728, section 5.1).
	UsesOAuth() bool
	// MissingScopes returns the scopes that the challenge demands with insufficient_scope (RFC 6750,
	// section 3.1), nil if it does not.
	MissingScopes() []string
	// WantsTLS reports whether the response says that the server speaks only TLS.
	WantsTLS() bool
}

// FailedCall says why a call failed that had reached a server, for the advice of [Program] and [Remote].
type FailedCall struct {
	Err error
	// Hide removes what the server may have repeated of the arguments of the call from a text of the server. If nothing is
	// left, the text is not quoted.
	Hide func(text string) string
	// Request is the id of the call. Many servers return it as the id of their response.
	Request string
}

func (f *FailedCall) Error() string { return f.Err.Error() }

func (f *FailedCall) Unwrap() error { return f.Err }

// UnexpectedContentType is a response that is neither JSON nor an event stream.
type UnexpectedContentType struct {
	Status    int
	MediaType string
}

func (u *UnexpectedContentType) Error() string {
	return fmt.Sprintf("the server answered HTTP %d with %s", u.Status, ContentName(u.MediaType))
}

func (u *UnexpectedContentType) advice() string {
	if u.MediaType == "text/html" {
		return "url leads to a web page, such as one for signing in; check its path, and whether credentials are missing under headers"
	}
	return "check the path of url"
}

// ContentName names a media type in a message for clients. A media type that is long
// or has unusual characters is not repeated.
func ContentName(mediaType string) string {
	if mediaType == "" {
		return "no content type"
	}
	for i := range len(mediaType) {
		c := mediaType[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("/.+-_*", c) >= 0) || i >= 64 {
			return "an odd content type"
		}
	}
	return "content type " + mediaType
}

const (
	// CheckServer is the advice about a program that does not speak MCP.
	CheckServer = "check that it is an MCP server which speaks over standard input and output"
	// CheckStdio is the advice about a program that prints text which is not MCP.
	CheckStdio = CheckServer + ", and that its args do not choose another transport"
	// DuringCall follows how a program ended in the advice about the call that it had.
	DuringCall = " during the call"
	// StartedAgain is the end of the advice about a program that has ended after it was ready.
	StartedAgain = ": it is started again"
)

const (
	// MaxText bounds a text of a server in the log.
	MaxText = 4 << 10
	// MaxExcerpt bounds an excerpt of a text of a server within a sentence.
	MaxExcerpt = 200
)

// ReasonNonProtocolOutput is the reason that clients get while a server has printed
// nothing but text that is not MCP.
const ReasonNonProtocolOutput = "the server prints text that is no MCP message"

// NonProtocolOutput returns the advice about a server that has printed this text.
func NonProtocolOutput(text []byte, mask func(string) string) string {
	return fmt.Sprintf("the server prints text that is no MCP message, such as %q: %s", Excerpt(text, mask), CheckStdio)
}

// Excerpt returns the beginning of a text of a server, without control characters. The text
// is bounded first, as it may be large, and masked before the last cut, so that no part of
// a secret remains.
func Excerpt(text []byte, mask func(string) string) string {
	return plaintext.Truncate(process.PlainLine(mask(string(text[:min(len(text), 2*MaxText)]))), MaxExcerpt)
}
