package httpconn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Exchange is one request and its response. It belongs to the goroutine of the request.
type Exchange struct {
	Endpoint *Endpoint
	ID       wire.ID
	// Early gets the requests and notifications of the server that come before the
	// response. It must not block.
	Early func(m wire.Message)
	// Releases says that the caller may release the buffer of the response.
	Releases bool

	At Cursor // in the event stream of the response, if it is one

	mu     sync.Mutex
	broken bool
	body   io.Closer // of the event stream that is being read
}

// Break ends the event stream of the response, so that no response comes any more. It may be called concurrently.
func (x *Exchange) Break() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.broken = true
	if x.body != nil {
		_ = x.body.Close() // of a stream that nobody reads any more
	}
}

// Broken reports whether Break was called.
func (x *Exchange) Broken() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken
}

// reads notes which event stream is being read. It reports false after Break.
func (x *Exchange) reads(body io.Closer) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.body = body
	return !x.broken
}

// StatusError is an HTTP response whose status is not a success.
type StatusError struct {
	Status     int
	MediaType  string
	RPC        *wire.Error   // the JSON-RPC error in the body, nil if there is none
	Text       string        // the beginning of another body that is plain text or JSON; it may repeat the request
	RequestID  string        // that the server gave the response, "" for none
	RetryAfter time.Duration // of the response, 0 if there is none
	OwnID      bool          // the body has the id of the request: the server understood it
	OAuth      bool          // the challenge names the metadata of a protected resource
	Scopes     []string      // that the challenge demands with insufficient_scope
	TLSOnly    bool          // the server got HTTP without TLS, and speaks only TLS
}

func (r *StatusError) Error() string {
	if r.RPC != nil {
		return fmt.Sprintf("HTTP %d: %s", r.Status, r.RPC)
	}
	return fmt.Sprintf("HTTP %d with %s", r.Status, diagnose.ContentName(r.MediaType))
}

// StatusCode implements [diagnose.HTTPError].
func (r *StatusError) StatusCode() int { return r.Status }

// ServerMessage implements [diagnose.HTTPError].
func (r *StatusError) ServerMessage() string {
	if r.RPC == nil {
		return r.Text
	}
	return r.RPC.Message
}

// ServerRequestID implements [diagnose.HTTPError].
func (r *StatusError) ServerRequestID() string { return r.RequestID }

// NewStatusError returns the error for a response, of which it reads the headers only.
func NewStatusError(resp *http.Response) *StatusError {
	c := oauthmeta.ReadChallenge(resp.Header)
	r := &StatusError{Status: resp.StatusCode, MediaType: MediaType(resp.Header), RetryAfter: retryAfter(resp.Header), OAuth: c.Metadata != ""}
	if resp.StatusCode == http.StatusForbidden && c.Error == oauthmeta.InsufficientScope {
		r.Scopes = c.Scopes
	}
	if id := resp.Header.Get(requestid.Header); requestid.Valid(id) {
		r.RequestID = id
	}
	return r
}

// ReadStatusError returns the error for a response with the beginning of its body, and closes it.
func ReadStatusError(resp *http.Response) *StatusError {
	r := NewStatusError(resp)
	body := beginOf(resp.Body, maxText, textTime)
	Discard(resp)
	if resp.StatusCode == http.StatusBadRequest && resp.Request.URL.Scheme == "http" && wantsTLS(body) {
		r.TLSOnly = true
		return r
	}
	r.read(body)
	return r
}

// read keeps the beginning of a body that people can read. A page or compressed data says nothing in a sentence.
func (r *StatusError) read(body []byte) {
	body = body[:min(len(body), maxText)]
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(http.DetectContentType(body), "text/plain") && !strings.EqualFold(text, http.StatusText(r.Status)) {
		r.Text = text
	}
}

// UsesOAuth implements [diagnose.HTTPError].
func (r *StatusError) UsesOAuth() bool { return r.OAuth }

// MissingScopes implements [diagnose.HTTPError].
func (r *StatusError) MissingScopes() []string { return r.Scopes }

// WantsTLS implements [diagnose.HTTPError].
func (r *StatusError) WantsTLS() bool { return r.TLSOnly }

// IsModern reports whether only a server of the modern era sends this response.
func (r *StatusError) IsModern() bool { return r.RPC != nil && wire.IsModernCode(r.RPC.Code) }

// StatusErrorOf returns the *StatusError in err, nil if there is none. It ignores the
// cause of a *protocol.CallError, which is for the log only.
func StatusErrorOf(err error) *StatusError {
	if _, ok := errors.AsType[*protocol.CallError](err); ok {
		return nil
	}
	r, _ := errors.AsType[*StatusError](err)
	return r
}

// callError returns the error of the call: the JSON-RPC error of the server if there is
// one, else a *protocol.CallError.
func (r *StatusError) callError() error {
	switch {
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return &protocol.CallError{Reason: fmt.Sprintf("the server refuses the gateway's credentials (HTTP %d)", r.Status), NotSent: true, Unauthenticated: true, Cause: r}
	case r.RPC != nil:
		return r.RPC
	case r.Status == http.StatusTooManyRequests:
		return &protocol.CallError{Reason: "the server is overloaded (HTTP 429)", NotSent: true, RetryAfter: cmp.Or(r.RetryAfter, protocol.RetryOverloaded), Cause: r}
	default:
		return &protocol.CallError{Reason: fmt.Sprintf("the server answered HTTP %d with %s", r.Status, diagnose.ContentName(r.MediaType)), RetryAfter: r.RetryAfter, Cause: r}
	}
}

// Post sends the request in p and returns the response. The error is a *StatusError, a
// *protocol.CallError, ErrStreamEnded, or that of ctx.
func (x *Exchange) Post(ctx context.Context, header Headers, p *Payload) (wire.Message, error) {
	resp, err := x.Endpoint.Do(ctx, http.MethodPost, header, p)
	if err != nil {
		return wire.Message{}, err
	}
	return x.Receive(ctx, resp)
}

// Receive reads the response from resp and closes it. The errors are those of Post.
func (x *Exchange) Receive(ctx context.Context, resp *http.Response) (wire.Message, error) {
	mt := MediaType(resp.Header)
	none := wire.Message{}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return none, x.refused(ctx, resp, mt)
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		Discard(resp)
		return none, &protocol.CallError{Reason: fmt.Sprintf("the server took the request as if it wanted no answer (HTTP %d)", resp.StatusCode)}
	case mt == TypeStream:
		return x.Stream(ctx, resp.Body)
	case mt != TypeJSON:
		Discard(resp)
		p := &diagnose.UnexpectedContentType{Status: resp.StatusCode, MediaType: mt}
		return none, &protocol.CallError{Reason: p.Error(), Cause: p}
	}
	body, err := x.Endpoint.readAll(ctx, resp, x.Releases)
	if err != nil {
		return none, err
	}
	m, found, err := x.Take(body.B)
	if err == nil && !found {
		err = &protocol.CallError{Reason: "the server's answer holds no response"}
	}
	x.hand(&m, body.B, body)
	return m, err
}

// hand gives the buffer to the response that was read from it, if the caller may release
// it. In a batch other messages may use it too; an error outlives its call in logs.
func (x *Exchange) hand(m *wire.Message, data []byte, b *wire.Buffer) {
	if x.Releases && m.Result != nil && !IsBatch(data) {
		m.Buffer = b
	}
}

// refused returns the error for a response whose status is not a success.
func (x *Exchange) refused(ctx context.Context, resp *http.Response, mt string) error {
	if mt != TypeJSON {
		return ReadStatusError(resp)
	}
	r := NewStatusError(resp)
	body, err := x.Endpoint.readAll(ctx, resp, false)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.Endpoint.received.Add(1)
	if err != nil {
		return r
	}
	m, err := wire.ParseUpstream(body.B, x.Endpoint.Limits)
	if err == nil && m.Error != nil && (m.ID == x.ID || m.ID.IsZero()) {
		r.RPC, r.OwnID = m.Error, m.ID == x.ID
	} else {
		r.read(body.B)
	}
	return r
}

// wantsTLS reports whether a body is that of Go, nginx or Apache for a request without TLS at a port for TLS.
func wantsTLS(body []byte) bool {
	for _, text := range []string{"HTTP request to an HTTPS server", "plain HTTP request was sent to HTTPS port", "speaking plain HTTP to an SSL-enabled server port"} {
		if bytes.Contains(body, []byte(text)) {
			return true
		}
	}
	return false
}

// retryAfter returns the value of Retry-After, 0 if there is none or if it is a date:
// clocks differ.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.ParseUint(h.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(s)*time.Second, protocol.MaxRetryAfter)
}

// Stream reads events until the response comes, and closes the body. The errors are those
// of Post.
func (x *Exchange) Stream(ctx context.Context, body io.ReadCloser) (wire.Message, error) {
	var answer wire.Message
	if !x.reads(body) {
		_ = body.Close()
		return answer, ErrStreamEnded
	}
	defer x.reads(nil)
	err := x.Endpoint.Events(ctx, body, &x.At, func(ev *wire.Event) (bool, error) {
		m, found, err := x.Take(ev.Data)
		answer = m
		x.hand(&answer, ev.Data, ev.Buffer)
		return found, err
	})
	return answer, err
}

// Take handles data of the server: one message or, before 2025-06-18, a batch. It returns
// the response if data contains it, and gives all other messages to Early.
func (x *Exchange) Take(data []byte) (wire.Message, bool, error) {
	if !IsBatch(data) {
		return x.takeOne(data)
	}
	if err := wire.Check(data, x.Endpoint.Limits, wire.Lenient); err != nil {
		return wire.Message{}, false, Malformed(err)
	}
	var answer wire.Message
	found := false
	for one := range wire.ValueOf(data).Elements() {
		m, ok, err := x.takeOne(one.Raw())
		if err != nil {
			return wire.Message{}, false, err
		}
		if ok {
			answer, found = m, true
		}
	}
	return answer, found, nil
}

// IsBatch reports whether data, which may be malformed, begins as an array.
func IsBatch(data []byte) bool {
	b := bytes.TrimLeft(data, " \t\r\n")
	return len(b) > 0 && b[0] == '['
}

func (x *Exchange) takeOne(data []byte) (wire.Message, bool, error) {
	x.Endpoint.received.Add(1)
	m, err := wire.ParseUpstream(data, x.Endpoint.Limits)
	switch {
	case err != nil:
		return m, false, Malformed(err)
	case !m.IsResponse():
		x.Endpoint.throttle.Received(m.IsRequest())
		x.Early(m)
		return m, false, nil
	case m.ID == x.ID, m.ID.IsZero(): // an error without an id: the server could not read the request
		return m, true, nil
	default:
		return m, false, &protocol.CallError{Reason: "the server answered with the id of another request"}
	}
}

// Malformed returns the error of a call whose response is malformed.
func Malformed(err error) *protocol.CallError {
	return &protocol.CallError{Reason: "the server's answer is no valid JSON-RPC message", Cause: err}
}
