package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// exchange is one request on its way to a server. It belongs to the goroutine
// of the request.
type exchange struct {
	e  *endpoint
	id wire.ID
	// early takes the server's requests and notifications that come before the
	// answer and on its way. It must not block.
	early func(m wire.Message)

	at cursor // in the stream of the answer, once it is one
}

// refusal is an HTTP answer to a request that is no success.
type refusal struct {
	status    int
	mediaType string
	rpc       *wire.Error   // the JSON-RPC error in the body, nil when there is none
	later     time.Duration // after which to ask again, as the server says
	ours      bool          // the body names the id of our request: the server understood it
}

func (r *refusal) Error() string {
	if r.rpc != nil {
		return fmt.Sprintf("HTTP %d: %s", r.status, r.rpc)
	}
	return fmt.Sprintf("HTTP %d with %s", r.status, diagnose.ContentName(r.mediaType))
}

// StatusCode implements [diagnose.HTTPError].
func (r *refusal) StatusCode() int { return r.status }

// ServerMessage implements [diagnose.HTTPError].
func (r *refusal) ServerMessage() string {
	if r.rpc == nil {
		return ""
	}
	return r.rpc.Message
}

// modern reports whether only a server of the modern era answers so.
func (r *refusal) modern() bool { return r.rpc != nil && wire.IsModernCode(r.rpc.Code) }

// refusalOf returns the refusal that err is, nil when it is none. One that is
// but the cause of a fault does not count: that call has been judged already.
func refusalOf(err error) *refusal {
	if _, ok := errors.AsType[*protocol.CallError](err); ok {
		return nil
	}
	r, _ := errors.AsType[*refusal](err)
	return r
}

// final returns what whoever called gets: the server's own error where it gave
// one, else a *CallError.
func (r *refusal) final() error {
	switch {
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return &protocol.CallError{Reason: fmt.Sprintf("the server refuses the gateway's credentials (HTTP %d)", r.status), NotSent: true, Unauthenticated: true, Cause: r}
	case r.rpc != nil:
		return r.rpc
	case r.status == http.StatusTooManyRequests:
		return &protocol.CallError{Reason: "the server is overloaded (HTTP 429)", NotSent: true, RetryAfter: cmp.Or(r.later, protocol.RetryOverloaded), Cause: r}
	default:
		return &protocol.CallError{Reason: fmt.Sprintf("the server answered HTTP %d with %s", r.status, diagnose.ContentName(r.mediaType)), RetryAfter: r.later, Cause: r}
	}
}

// post sends the request in p and returns the answer. The error is a
// *refusal, a *CallError, errCutOff, or that of ctx.
func (x *exchange) post(ctx context.Context, header headers, p *payload) (wire.Message, error) {
	resp, err := x.e.do(ctx, http.MethodPost, header, p)
	if err != nil {
		return wire.Message{}, err
	}
	return x.receive(ctx, resp)
}

// receive reads the answer out of resp and closes it. The errors are those of
// post.
func (x *exchange) receive(ctx context.Context, resp *http.Response) (wire.Message, error) {
	mt := mediaType(resp.Header)
	none := wire.Message{}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return none, x.refused(ctx, resp, mt)
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent:
		discard(resp)
		return none, &protocol.CallError{Reason: fmt.Sprintf("the server took the request as if it wanted no answer (HTTP %d)", resp.StatusCode)}
	case resp.Header.Get("Content-Encoding") != "":
		resp.Body.Close()
		return none, &protocol.CallError{Reason: "the server's answer has a content encoding that the gateway did not ask for"}
	case mt == typeStream:
		return x.stream(ctx, resp.Body)
	case mt != typeJSON:
		discard(resp)
		p := &diagnose.UnexpectedContentType{Status: resp.StatusCode, MediaType: mt}
		return none, &protocol.CallError{Reason: p.Error(), Cause: p}
	}
	data, err := x.e.readAll(ctx, resp)
	if err != nil {
		return none, err
	}
	m, found, err := x.take(data)
	if err == nil && !found {
		err = &protocol.CallError{Reason: "the server's answer holds no response"}
	}
	return m, err
}

// refused reads what a server says with a status that is no success.
func (x *exchange) refused(ctx context.Context, resp *http.Response, mt string) error {
	r := &refusal{status: resp.StatusCode, mediaType: mt, later: retryAfter(resp.Header)}
	if mt != typeJSON {
		discard(resp)
		return r
	}
	data, err := x.e.readAll(ctx, resp)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	x.e.heard.Add(1)
	if err != nil {
		return r
	}
	m, err := wire.ParseUpstream(data, x.e.lim)
	if err == nil && m.Error != nil && (m.ID == x.id || m.ID.IsZero()) {
		r.rpc, r.ours = m.Error, m.ID == x.id
	}
	return r
}

// retryAfter is what a server says of when to ask again, 0 when it says nothing, or
// a date: clocks differ.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.ParseUint(h.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(s)*time.Second, protocol.MaxRetryAfter)
}

// stream reads events until the answer comes, and closes the body.
func (x *exchange) stream(ctx context.Context, body io.ReadCloser) (wire.Message, error) {
	var answer wire.Message
	err := x.e.events(ctx, body, &x.at, func(data []byte) (bool, error) {
		m, found, err := x.take(data)
		answer = m
		return found, err
	})
	return answer, err
}

// take looks at what the server sent: one message or, before 2025-06-18, a
// batch. It returns the answer if it was there, and hands the rest on.
func (x *exchange) take(data []byte) (wire.Message, bool, error) {
	if !isBatch(data) {
		return x.takeOne(data)
	}
	if err := wire.Check(data, x.e.lim, wire.Lenient); err != nil {
		return wire.Message{}, false, malformed(err)
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

// isBatch reports whether data, which need not be valid, can only be an array.
func isBatch(data []byte) bool {
	b := bytes.TrimLeft(data, " \t\r\n")
	return len(b) > 0 && b[0] == '['
}

func (x *exchange) takeOne(data []byte) (wire.Message, bool, error) {
	x.e.heard.Add(1)
	m, err := wire.ParseUpstream(data, x.e.lim)
	switch {
	case err != nil:
		return m, false, malformed(err)
	case !m.IsResponse():
		x.early(m)
		return m, false, nil
	case m.ID == x.id, m.ID.IsZero(): // an error without an id: the server could not read the request
		return m, true, nil
	default:
		return m, false, &protocol.CallError{Reason: "the server answered with the id of another request"}
	}
}

func malformed(err error) *protocol.CallError {
	return &protocol.CallError{Reason: "the server's answer is no valid JSON-RPC message", Cause: err}
}
