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

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Endpoint is one URL that requests are sent to, over one pool of connections.
// It is safe for concurrent use.
type Endpoint struct {
	Pool *Pool
	// trouble gets a token when a connection fails, so that somebody looks
	// whether the server is still there.
	failed chan struct{}
	url    atomic.Pointer[url.URL] // changes when the server redirects for good
	Max    int                     // bytes that one message may have
	Limits wire.Limits
	// base holds the headers of every request: the configured ones and those
	// that the gateway always sends. It is never changed.
	base http.Header
	// met takes what the headers of an answer say of gateways, see Trail.
	checkVia func(via string) error
	// credentials prove who calls, nil for none; owner says whose requests those
	// are that belong to no call.
	credentials Credentials
	owner       protocol.SessionOwner
	// heard counts the messages of the server, see doubt.
	received *atomic.Uint64
}

const (
	TypeJSON   = "application/json"
	TypeStream = "text/event-stream"

	maxRedirects = 3
	// How much is read, and for how long, of what is left of an answer, so that
	// its connection can be used again. Nearly every server ends an event stream
	// with the answer.
	maxDrain  = 4 << 10
	drainTime = 20 * time.Millisecond
)

// reserved lists, with all [wire.HeaderParamPrefix], the headers that the gateway
// sets itself and that the configuration therefore cannot: those of the protocol, of
// the framing, and the two that make net/http send a POST again.
var reserved = []string{
	"Accept", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Host", "Upgrade", "Te", "Trailer",
	"Accept-Encoding", "Idempotency-Key", "X-Idempotency-Key",
	wire.HeaderSession, wire.HeaderVersion, wire.HeaderMethod, wire.HeaderName, wire.HeaderLastEvent, protocol.HeaderVia,
}

func isReserved(name string) bool {
	return slices.Contains(reserved, name) || strings.HasPrefix(name, wire.HeaderParamPrefix)
}

// newEndpoint returns an endpoint at the configured URL that sends the
// configured headers, without those that are reserved, with every request.
func newEndpoint(p *Pool, o *protocol.Config, web *Config) *Endpoint {
	e := &Endpoint{Pool: p, failed: make(chan struct{}, 1), Max: o.MaxMessage, Limits: o.Limits}
	e.checkVia = o.Loops.Check
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
	e.base["Content-Type"] = []string{TypeJSON}
	return e
}

// At returns an endpoint at another URL of the server's, on the same
// connections.
func (e *Endpoint) At(u *url.URL) *Endpoint {
	other := &Endpoint{
		Pool: e.Pool, failed: e.failed, Max: e.Max, Limits: e.Limits, base: e.base, checkVia: e.checkVia, credentials: e.credentials, owner: e.owner,
		received: e.received,
	}
	other.url.Store(u)
	return other
}

// Header returns the base headers with those added that come in pairs of
// canonical name and value; a pair without a value is left out.
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

// StreamHeader returns header changed into that of a GET for an event stream.
func StreamHeader(header Headers, lastEvent string) Headers {
	h := maps.Clone(header.all(nil))
	delete(h, "Content-Type")
	h["Accept"] = []string{TypeStream}
	if lastEvent != "" {
		h[wire.HeaderLastEvent] = []string{lastEvent}
	}
	return newHeaders(h).forPrincipal(header.who)
}

// Do sends one request and returns its answer, whatever the status, with the
// body open. p is nil for requests without a body; its owner is still the
// caller.
//
// Redirects are followed within the origin only, with the method and the body
// as they are: the configured headers may be credentials, and a POST that
// becomes a GET is another request.
//
// Where there are credentials the request carries them, and is sent once more if the
// server refuses those and there are others: what it refuses it has not begun.
//
// The error is a *CallError, or that of ctx.
func (e *Endpoint) Do(ctx context.Context, method string, header Headers, p *Payload) (*http.Response, error) {
	if e.credentials == nil {
		return e.follow(ctx, method, header, p)
	}
	who := cmp.Or(header.who, e.owner.Principal())
	for again := false; ; again = true {
		proof, err := e.credentials.Headers(ctx, who)
		if err != nil {
			return nil, unauthenticated(ctx, err)
		}
		resp, err := e.follow(ctx, method, header.withCredentials(proof), p)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		retry, err := e.credentials.Refused(ctx, who, proof, resp.StatusCode, resp.Header)
		if err == nil && (!retry || again) {
			return resp, nil
		}
		Discard(resp)
		if err != nil {
			return nil, unauthenticated(ctx, err)
		}
	}
}

// unproven is the error of a request that nothing proves who sends.
func unauthenticated(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &protocol.CallError{Reason: err.Error(), NotSent: true, Unauthenticated: true, Cause: errors.Unwrap(err)}
}

// follow sends one request, and follows redirects, see [endpoint.do].
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

// redirection returns where resp, an answer from u, leads to, or why the
// gateway does not go there.
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

// bare returns a URL as a request can be sent to it: without what is not for the
// server, and without the spaces that [url.Parse] leaves in a query.
func RequestURL(u *url.URL) *url.URL {
	b := *u
	b.User, b.Fragment, b.RawFragment = nil, "", ""
	b.RawQuery = strings.ReplaceAll(b.RawQuery, " ", "%20")
	return &b
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// Send posts a message, the answer to which, if any, comes another way. The
// error is a *refusal, a *CallError, or that of ctx.
func (e *Endpoint) Send(ctx context.Context, header Headers, m wire.Message) error {
	p := NewPayload()
	defer p.Release()
	p.Data = m.Append(p.Data)
	resp, err := e.Do(ctx, http.MethodPost, header, p)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		Discard(resp)
		return nil
	}
	x := Exchange{Endpoint: e, ID: m.ID}
	return x.refused(ctx, resp, MediaType(resp.Header))
}

// template is what all requests have in common; a copy is cheaper than
// http.NewRequest, which parses the URL each time.
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
	return resp, nil
}

// roundTrip sends one request.
func (e *Endpoint) roundTrip(ctx context.Context, method string, u *url.URL, header Headers, p *Payload) (*http.Response, error) {
	var connected atomic.Bool
	if p == nil { // the payload tells it of all other requests
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
		req.Body, req.GetBody, req.ContentLength = &one.body, p.body, int64(len(p.Data))
	}
	resp, err := e.Pool.transport.RoundTrip(req)
	if err != nil && p == nil && !connected.Load() {
		err = &unconnected{err}
	}
	return resp, err
}

// unconnected is the error of a request for which there never was a connection.
type unconnected struct{ error }

func (u *unconnected) Unwrap() error { return u.error }

// meet ends the conversation when an answer says that the server leads back to
// this gateway. The error is a *CallError, and then resp is closed.
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

// broken turns a failure of a connection into what whoever called gets: the
// error of ctx, or a *CallError.
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
	return &protocol.CallError{Reason: "the connection to the server broke before it answered", ConnectionLost: true, Cause: err}
}

// Discard closes an answer that is not used, so that its connection can be used
// again if that is cheap.
func Discard(resp *http.Response) {
	if resp.ContentLength != 0 {
		drain(resp.Body)
	}
	resp.Body.Close()
}

// drain reads a body to its end, if that comes at once. It need not: a server
// may keep a stream open.
func drain(body io.ReadCloser) {
	late := time.AfterFunc(drainTime, func() { body.Close() })
	io.CopyN(io.Discard, body, maxDrain)
	late.Stop()
}

// MediaType returns the media type of an answer in lower case, without
// parameters.
func MediaType(h http.Header) string {
	ct, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(ct))
}

// readAll reads the body of resp whole and closes it. The caller owns the
// bytes. The error is a *CallError, or that of ctx.
func (e *Endpoint) readAll(ctx context.Context, resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if resp.ContentLength > int64(e.Max) {
		return nil, e.TooLarge()
	}
	var data []byte
	var err error
	if n := resp.ContentLength; n >= 0 && n <= maxPooled {
		data = make([]byte, n)
		_, err = io.ReadFull(resp.Body, data)
	} else { // of unknown length, or so large that it is believed only as it comes
		data, err = io.ReadAll(io.LimitReader(resp.Body, int64(e.Max)+1))
	}
	switch {
	case err == nil && len(data) > e.Max:
		return nil, e.TooLarge()
	case err == nil:
		return data, nil
	default:
		return nil, e.connectionError(ctx, err, false)
	}
}

func (e *Endpoint) TooLarge() *protocol.CallError {
	return &protocol.CallError{Reason: fmt.Sprintf("the server's answer is larger than %d bytes", e.Max)}
}
