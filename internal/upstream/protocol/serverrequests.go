package protocol

import (
	"context"
	"errors"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// MaxAsks bounds the requests of one server that are open at the same time. A request is
// open until its response has been sent.
const MaxAsks = 256

// codeUnanswered is the code of the response to a sampling request that nobody answered.
// The specification shows it for a user who refused (2025-11-25, client/sampling, "Error
// Handling").
const codeUnanswered = -1

// ServerRequests answers the requests that a legacy server sends. It answers ping itself,
// and roots/list too if the session is shared. All others go through the back channel of
// the call that they belong to. Its methods may be called concurrently.
//
// A request that belongs to no call is answered immediately. The back channel answers for a
// client that did not declare the capability. An elicitation that nobody answers is cancelled,
// not declined, since declining would mean that the user refused.
type ServerRequests struct {
	Config *Config
	// Send sends a response to the server. c is the call that the request belongs to,
	// or nil. It is called from goroutines that [ServerRequests.Wait] waits for.
	Send func(ctx context.Context, m wire.Message, c *call.Call)
	// Liveness counts the open requests: a server with open requests is not silent.
	Liveness *Liveness

	Mu      sync.Mutex
	open    map[wire.ID]context.CancelFunc
	sending int // responses that are being sent
	wg      sync.WaitGroup
}

// Serve answers the request m, which belongs to the call c, or to none if c is nil. It
// returns immediately; the response goes to Send unless ctx ends before. It must not be
// called after or together with [ServerRequests.Wait].
func (a *ServerRequests) Serve(ctx context.Context, m wire.Message, c *call.Call) {
	ctx, cancel := context.WithCancel(ctx)
	a.Mu.Lock()
	_, twice := a.open[m.ID]
	full := len(a.open)+a.sending >= MaxAsks
	if !twice && !full {
		if a.open == nil {
			a.open = make(map[wire.ID]context.CancelFunc)
		}
		a.open[m.ID] = cancel
		a.Liveness.waiting.Add(1)
	}
	a.Mu.Unlock()
	if twice || full {
		// A response to one of two requests with the same id could be taken for that
		// of the other, and a server with so many open requests does not wait for
		// responses. So there is none.
		cancel()
		return
	}
	a.wg.Go(func() {
		reply := a.answer(ctx, m, c)
		a.Mu.Lock()
		_, wanted := a.open[m.ID] // false if the server has cancelled it
		a.settle(m.ID)
		if wanted {
			a.sending++
		}
		a.Mu.Unlock()
		if wanted {
			a.Send(ctx, reply, c)
			a.Mu.Lock()
			a.sending--
			a.Mu.Unlock()
			a.Config.Owner.Answered(m.Method)
		}
		cancel()
	})
}

// Cancelled handles a notifications/cancelled of the server: the request with that id gets
// no response. It reports whether such a request was open.
func (a *ServerRequests) Cancelled(params wire.Raw) bool {
	id := wire.IDOf(string(wire.ValueOf(params).Get("requestId").Raw()))
	a.Mu.Lock()
	cancel, ok := a.open[id]
	a.settle(id)
	a.Mu.Unlock()
	if ok {
		cancel()
	}
	return ok
}

// settle removes a request from the open ones. The caller holds Mu.
func (a *ServerRequests) settle(id wire.ID) {
	if _, open := a.open[id]; open {
		delete(a.open, id)
		a.Liveness.waiting.Add(-1)
	}
}

// Wait waits until no response is being sent. The context of Serve must have ended.
func (a *ServerRequests) Wait() { a.wg.Wait() }

func (a *ServerRequests) answer(ctx context.Context, m wire.Message, c *call.Call) wire.Message {
	result, err := a.result(ctx, m, c)
	if err != nil {
		return wire.Message{ID: m.ID, Error: err}
	}
	return wire.Message{ID: m.ID, Result: result}
}

func (a *ServerRequests) result(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	if by := requestHandlers[m.Method]; by != nil {
		return by(a, ctx, m, c)
	}
	return nil, wire.Errorf(wire.CodeMethodNotFound, "the client does not know the method %.100q", m.Method)
}

// requestHandlers handles the requests that a server may send.
var requestHandlers = map[string]func(a *ServerRequests, ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error){
	wire.MethodPing:      (*ServerRequests).ping,
	wire.MethodRootsList: (*ServerRequests).roots,
	wire.MethodElicit:    (*ServerRequests).elicit,
	wire.MethodSample:    (*ServerRequests).sample,
}

func (*ServerRequests) ping(context.Context, wire.Message, *call.Call) (wire.Raw, *wire.Error) {
	return wire.Raw(`{}`), nil
}

func (a *ServerRequests) roots(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	switch {
	case a.Config.Owner.RelaysRoots():
		return clientRoots(ctx, m, c)
	case a.Config.Roots == nil:
		return nil, errNoRoots
	}
	return rootsResult(a.Config.Roots), nil
}

func (*ServerRequests) elicit(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	return relay(ctx, m, c, func() (wire.Raw, *wire.Error) { return wire.Raw(`{"action":"cancel"}`), nil })
}

func (*ServerRequests) sample(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	return relay(ctx, m, c, func() (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(codeUnanswered, "the sampling request was not answered")
	})
}

var errNoRoots = wire.Errorf(wire.CodeMethodNotFound, "the client does not support roots")

// clientRoots asks the client for its roots.
func clientRoots(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	return relay(ctx, m, c, func() (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(wire.CodeInternal, "the client cannot be reached")
	})
}

// relay sends the request to the client of the call. The server gets an error of the
// client; every other error, and a call without a client, counts as unanswered. The back
// channel knows whether the client can be asked, so that it counts every request.
func relay(ctx context.Context, m wire.Message, c *call.Call, unanswered func() (wire.Raw, *wire.Error)) (wire.Raw, *wire.Error) {
	if c == nil || c.Client == nil {
		return unanswered()
	}
	result, err := c.Back.Ask(ctx, m.Method, m.Params)
	if err == nil {
		return result, nil
	}
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return nil, refusal
	}
	return unanswered()
}

// rootsResult returns the result of roots/list.
func rootsResult(roots []Root) wire.Raw {
	out := []byte(`{"roots":[`)
	for i, r := range roots {
		if i > 0 {
			out = append(out, ',')
		}
		doc := wire.SetMember(wire.Raw(`{}`), "uri", wire.String(r.URI))
		if r.Name != "" {
			doc = wire.SetMember(doc, "name", wire.String(r.Name))
		}
		out = append(out, doc...)
	}
	return append(out, `]}`...)
}

// NoClient is the back channel of the gateway's own calls. It drops notifications and
// refuses requests.
type NoClient struct{}

func (NoClient) Notify(string, wire.Raw) {}

func (NoClient) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeInternal, "nobody is there to be asked")
}
