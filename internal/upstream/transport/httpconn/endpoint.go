package httpconn

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Endpoint is one URL that requests are sent to, over one pool of connections.
// It is safe for concurrent use.
type Endpoint struct {
	Pool *Pool
	// failed gets a token when a connection fails, so that Conn.Watch probes the server.
	failed chan struct{}
	url    atomic.Pointer[url.URL] // changes when the server redirects permanently
	Max    int                     // bytes of one message
	Limits wire.Limits
	// base holds the headers of every request: the configured ones and those that the
	// gateway always sends. It is immutable.
	base http.Header
	// checkVia is protocol.LoopDetector.Check.
	checkVia func(via string) error
	// credentials are nil if there are none; owner has the principal of requests that
	// belong to no call.
	credentials Credentials
	owner       protocol.SessionOwner
	// received counts the messages of the server, see protocol.Liveness.
	received *atomic.Uint64
	throttle *protocol.Throttle
	ignored  func() // counts what a stream sends that tells nothing
}

// The media types of responses, and limits.
const (
	TypeJSON   = "application/json"
	TypeStream = "text/event-stream"
	typePage   = "text/html"

	maxRedirects = 3
	// maxDrain and drainTime bound the rest of a response that is read so that its
	// connection can be used again. Nearly every server ends an event stream after the
	// JSON-RPC response.
	maxDrain  = 4 << 10
	drainTime = 20 * time.Millisecond
	// maxSniffed is how much of a body shows its type.
	maxSniffed = 512
	// maxText and textTime bound the text of a response without success that is read for operators. It is
	// longer than what they see of it, so that a secret in it is whole when it is masked.
	maxText  = 4 << 10
	textTime = time.Second
)

// reserved lists the headers that cannot be configured, beside those with
// [wire.HeaderParamPrefix]: headers of MCP and of the framing, and two that make net/http
// send a POST again.
var reserved = []string{
	"Accept", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Host", "Upgrade", "Te", "Trailer",
	"Accept-Encoding", "Idempotency-Key", "X-Idempotency-Key",
	wire.HeaderSession, wire.HeaderVersion, wire.HeaderMethod, wire.HeaderName, wire.HeaderLastEvent, protocol.HeaderVia,
}

func isReserved(name string) bool {
	return slices.Contains(reserved, name) || strings.HasPrefix(name, wire.HeaderParamPrefix)
}

// newEndpoint returns an endpoint at the configured URL that sends the configured headers,
// except for reserved ones, with every request.
func newEndpoint(p *Pool, o *protocol.Config, web *Config) *Endpoint {
	e := &Endpoint{Pool: p, failed: make(chan struct{}, 1), Max: o.MaxMessage, Limits: o.Limits}
	e.checkVia, e.throttle = o.Loops.Check, o.Throttle
	e.ignored = func() { e.throttle.Received(false) }
	e.credentials = web.Credentials
	e.owner = o.Owner
	e.base = http.Header{"User-Agent": {"mcpgateway"}}
	if user := web.URL.User; user != nil {
		password, _ := user.Password()
		e.base["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))}
	}
	e.url.Store(RequestURL(web.URL))
	for name, value := range web.Headers {
		name = http.CanonicalHeaderKey(name)
		if !isReserved(name) {
			e.base[name] = []string{value}
		}
	}
	if via := o.Loops.Via(); via != "" {
		e.base[protocol.HeaderVia] = []string{via}
	}
	e.base["Accept"] = []string{TypeJSON + ", " + TypeStream}
	e.base["Accept-Encoding"] = acceptedCodings
	e.base["Content-Type"] = []string{TypeJSON}
	return e
}

// At returns an endpoint at another URL of the server, over the same connections.
func (e *Endpoint) At(u *url.URL) *Endpoint {
	other := &Endpoint{
		Pool: e.Pool, failed: e.failed, Max: e.Max, Limits: e.Limits, base: e.base, checkVia: e.checkVia, credentials: e.credentials, owner: e.owner,
		received: e.received, throttle: e.throttle, ignored: e.ignored,
	}
	other.url.Store(u)
	return other
}

// Header returns the headers of every request and additional ones, in pairs of canonical
// name and value. A pair with an empty value is left out.
func (e *Endpoint) Header(pairs ...string) Headers {
	h := make(http.Header, len(e.base)+len(pairs)/2)
	maps.Copy(h, e.base) // the values are shared and never changed
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h[pairs[i]] = []string{pairs[i+1]}
		}
	}
	return newHeaders(h)
}

// StreamHeader returns the headers of a GET for an event stream that resumes after
// lastEvent, "" for a new stream.
func StreamHeader(header Headers, lastEvent string) Headers {
	h := maps.Clone(header.all(nil))
	delete(h, "Content-Type")
	h["Accept"] = []string{TypeStream}
	if lastEvent != "" {
		h[wire.HeaderLastEvent] = []string{lastEvent}
	}
	return Headers{shared: h, who: header.who, request: header.request, trace: header.trace}
}

// Do sends one request and returns the response with any status. The caller closes its
// body. p is nil for requests without a body, and stays the caller's.
//
// Do follows redirects within the origin only, with the same method and body: the
// configured headers may be credentials, and a POST that becomes a GET is another request.
//
// If the server refuses the credentials and there are new ones, the request is sent once
// more: a server does not execute what it refuses.
//
// The error is a *protocol.CallError, or that of ctx.
func (e *Endpoint) Do(ctx context.Context, method string, header Headers, p *Payload) (*http.Response, error) {
	if e.credentials == nil {
		return e.follow(ctx, method, header, p)
	}
	who := cmp.Or(header.who, e.owner.Principal())
	for again := false; ; again = true {
		headers, err := e.credentials.Headers(ctx, who)
		if err != nil {
			return nil, unauthenticated(ctx, err)
		}
		resp, err := e.follow(ctx, method, header.withCredentials(headers), p)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		retry, err := e.credentials.Refused(ctx, who, headers, resp.StatusCode, resp.Header)
		if err == nil && (!retry || again) {
			return resp, nil
		}
		Discard(resp)
		if err != nil {
			return nil, unauthenticated(ctx, err)
		}
	}
}

// unauthenticated returns the error of a request without valid credentials.
func unauthenticated(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // the server is not the slow one
		return &protocol.CallError{Reason: "there were no credentials for the server in time", NotSent: true, Unauthenticated: true, NoCredentials: true, Temporary: true, Cause: ctx.Err()}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	e := &protocol.CallError{Reason: err.Error(), NotSent: true, Unauthenticated: true, NoCredentials: true, Cause: errors.Unwrap(err)}
	if p, ok := errors.AsType[passing](err); ok {
		e.Passed, e.Temporary = p.HasPassed, p.Temporary()
	}
	return e
}

// follow sends one request and follows redirects, see [Endpoint.Do].
func (e *Endpoint) follow(ctx context.Context, method string, header Headers, p *Payload) (*http.Response, error) {
	u := e.url.Load()
	for hop := 0; ; hop++ {
		resp, err := e.try(ctx, method, u, header, p)
		if err != nil {
			return nil, err
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return resp, nil
		}
		Discard(resp)
		next, err := redirection(u, resp)
		if err == nil && hop == maxRedirects {
			err = fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if err != nil {
			return nil, &protocol.CallError{Reason: "the server redirects: " + err.Error(), NotSent: true, Cause: fmt.Errorf("location %.200q", resp.Header.Get("Location"))}
		}
		if resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusPermanentRedirect {
			e.url.CompareAndSwap(u, next)
		}
		u = next
	}
}

// redirection returns the target of the redirect resp, which u sent. The error says why
// the gateway does not follow it.
func redirection(u *url.URL, resp *http.Response) (*url.URL, error) {
	if resp.StatusCode == http.StatusSeeOther {
		return nil, fmt.Errorf("status 303 would turn a POST into a GET")
	}
	location := resp.Header.Get("Location")
	next, err := u.Parse(location)
	if location == "" || err != nil {
		return nil, fmt.Errorf("the location is no URL")
	}
	if !SameOrigin(u, next) {
		return nil, fmt.Errorf("the location is of another origin, where credentials must not go; configure the URL that it leads to")
	}
	return RequestURL(next), nil
}

// RequestURL returns the URL of a request: without user information and fragment, and
// without the spaces that [url.Parse] leaves in a query.
func RequestURL(u *url.URL) *url.URL {
	b := *u
	b.User, b.Fragment, b.RawFragment = nil, "", ""
	b.RawQuery = strings.ReplaceAll(b.RawQuery, " ", "%20")
	return &b
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(diagnose.HostPort(a), diagnose.HostPort(b))
}

// Send posts a message whose response, if any, comes on another stream. A web page does not
// accept a request: it is what a login, or a server of something else, answers. The error is
// a *StatusError, a *protocol.CallError, or that of ctx.
func (e *Endpoint) Send(ctx context.Context, header Headers, m wire.Message) error {
	p := NewPayload(&m)
	defer p.Release()
	resp, err := e.Do(ctx, http.MethodPost, header, p)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		page := m.IsRequest() && resp.StatusCode == http.StatusOK && MediaType(resp.Header) == typePage && beginsAsPage(resp.Body)
		Discard(resp)
		if page {
			p := &diagnose.UnexpectedContentType{Status: resp.StatusCode, MediaType: typePage}
			return &protocol.CallError{Reason: p.Error(), Cause: p}
		}
		return nil
	}
	x := Exchange{Endpoint: e, ID: m.ID}
	return x.refused(ctx, resp, MediaType(resp.Header))
}

// beginsAsPage reports whether a body, as far as it comes at once, is a web page. The media
// type does not tell: some servers name it for an empty body too.
func beginsAsPage(body io.ReadCloser) bool {
	return strings.HasPrefix(http.DetectContentType(beginOf(body, maxSniffed, drainTime)), typePage)
}

// beginOf returns the first bytes of a body, those that come in time.
func beginOf(body io.ReadCloser, most int, in time.Duration) []byte {
	late := time.AfterFunc(in, func() { body.Close() })
	defer late.Stop()
	begin, _ := io.ReadAll(io.LimitReader(body, int64(most))) // the begin of a body that breaks off says as much
	return begin
}

// template is copied for each request. http.NewRequest would parse the URL each time.
var template = (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(context.Background())

// try sends one request, once.
func (e *Endpoint) try(ctx context.Context, method string, u *url.URL, header Headers, p *Payload) (*http.Response, error) {
	resp, err := e.roundTrip(ctx, method, u, header, p)
	if err != nil {
		_, unconnected := err.(*unconnected)
		return nil, e.connectionError(ctx, err, unconnected || p != nil && !p.Sent.Load())
	}
	if err := e.checkLoop(resp); err != nil {
		return nil, err
	}
	if err := e.decode(resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// roundTrip sends one request.
func (e *Endpoint) roundTrip(ctx context.Context, method string, u *url.URL, header Headers, p *Payload) (*http.Response, error) {
	var connected atomic.Bool
	if p == nil { // otherwise the payload knows whether it was sent
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	}
	one := &struct { // a single allocation
		http.Request
		body   payloadReader
		values [maxInline]string
	}{Request: *template.WithContext(ctx)}
	req := &one.Request
	req.Method, req.URL, req.Host, req.Header = method, u, u.Host, header.all(one.values[:0])
	if p != nil {
		one.body.open(p)
		req.Body, req.GetBody, req.ContentLength = &one.body, p.body, int64(p.size())
	}
	fields, n := header.fields()
	resp, err := e.Pool.transport.RoundTripWith(req, fields[:n]...)
	if err != nil && p == nil && !connected.Load() {
		err = &unconnected{err}
	}
	return resp, err
}

// unconnected is the error of a request that never had a connection.
type unconnected struct{ error }

func (u *unconnected) Unwrap() error { return u.error }

// checkLoop ends the conversation if the response says that the server leads back to this
// gateway. On errors, which are a *protocol.CallError, resp is closed.
func (e *Endpoint) checkLoop(resp *http.Response) error {
	if len(resp.Header[protocol.HeaderVia]) == 0 {
		return nil
	}
	err := e.checkVia(protocol.ViaOf(resp.Header))
	if err != nil {
		resp.Body.Close()
		e.Pool.Close()
		protocol.Poke(e.failed)
	}
	return err
}

// connectionError returns the error of a call for a failure of its connection: that of
// ctx, or a *protocol.CallError.
func (e *Endpoint) connectionError(ctx context.Context, err error, unsent bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e.Pool.Closed():
		return &protocol.CallError{Reason: protocol.ReasonConnectionLost, NotSent: unsent, ConnectionLost: true, ConversationClosed: true, Cause: err}
	}
	protocol.Poke(e.failed)
	if unsent {
		return &protocol.CallError{Reason: "cannot connect to the server", NotSent: true, ConnectionLost: true, Cause: err}
	}
	return &protocol.CallError{Reason: protocol.ReasonConnectionBroken, ConnectionLost: true, Cause: err}
}

// Discard closes a response that is not needed. If little is left of it, its connection
// can be used again.
func Discard(resp *http.Response) {
	if resp.ContentLength != 0 {
		drain(resp.Body)
	}
	resp.Body.Close()
}

// drain reads a body to its end if the end comes immediately. A server may keep a stream
// open.
func drain(body io.ReadCloser) {
	late := time.AfterFunc(drainTime, func() { body.Close() })
	io.CopyN(io.Discard, body, maxDrain)
	late.Stop()
}

// MediaType returns the media type of a response in lower case, without parameters.
func MediaType(h http.Header) string {
	ct, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(ct))
}

// readAll reads the body of resp to its end and closes it. The caller owns the buffer. The
// error is a *protocol.CallError, or that of ctx.
//
// A response that nobody releases gets no memory of the pool: a catalog may keep it.
func (e *Endpoint) readAll(ctx context.Context, resp *http.Response, releases bool) (*wire.Buffer, error) {
	defer resp.Body.Close()
	if resp.ContentLength > int64(e.Max) {
		return nil, e.TooLarge()
	}
	b := new(wire.Buffer)
	if step := wire.NextStep(0, resp.ContentLength, e.Max); releases {
		b = wire.NewBuffer(step)
	} else if resp.ContentLength >= 0 {
		b.B = make([]byte, 0, step)
	}
	switch err := b.ReadAll(resp.Body, resp.ContentLength, e.Max); {
	case err == nil:
		return b, nil
	case err == wire.ErrTooLarge:
		b.Release()
		return nil, e.TooLarge()
	default:
		b.Release()
		if bad, ok := err.(*decodeError); ok {
			return nil, bad.callError()
		}
		return nil, e.connectionError(ctx, err, false)
	}
}

// TooLarge returns the error of a call whose response exceeds Max.
func (e *Endpoint) TooLarge() *protocol.CallError {
	return &protocol.CallError{Reason: fmt.Sprintf("the server's answer is larger than %d bytes", e.Max), TooLarge: true}
}
