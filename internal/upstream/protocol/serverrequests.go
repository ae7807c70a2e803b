package protocol

import (
	"context"
	"errors"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// maxAsks bounds how many questions of one server may be open at once, those counted
// whose answer is on its way.
const MaxAsks = 256

// codeLapsed is what a server gets whose sampling request nobody answered: the
// code that the specification shows for a user who refused (2025-11-25,
// client/sampling, "Error Handling").
const codeLapsed = -1

// asks answers the requests that a legacy server makes of its client: ping by
// itself, and so roots/list where the session is shared, all others through the
// back channel of the call that they belong to. Its methods may be called by many goroutines at
// once.
//
// Who belongs to no call, or whose client did not declare that it can answer,
// gets an answer at once. An elicitation that nobody answers is cancelled, not
// declined: a decline would say that the user refused.
type ServerRequests struct {
	Config *Config
	// send brings an answer to the server. c is the call that the question belonged
	// to, or nil. It is called from goroutines that [ServerRequests.wait] waits for.
	Send func(ctx context.Context, m wire.Message, c *call.Call)
	// doubt counts the questions that are open.
	Liveness *Liveness

	Mu      sync.Mutex
	open    map[wire.ID]context.CancelFunc
	sending int // answers on their way
	wg      sync.WaitGroup
}

// Serve answers the request m, which belongs to the call c, or to none when c
// is nil. It returns at once; the answer goes out through send until ctx ends.
// It must not be called after or together with [ServerRequests.wait].
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
		// Two open requests under one id cannot both be answered, and a server
		// with this many open does not wait for answers. Neither gets one: an
		// answer could be taken for that of the other.
		cancel()
		return
	}
	a.wg.Go(func() {
		reply := a.answer(ctx, m, c)
		a.Mu.Lock()
		_, wanted := a.open[m.ID] // not when the server has cancelled it
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

// Cancelled takes a notifications/cancelled of the server: the question with
// that id is not to be answered any more. It reports whether there was one.
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

// settle takes a question out of those that are open. The caller holds mu.
func (a *ServerRequests) settle(id wire.ID) {
	if _, open := a.open[id]; open {
		delete(a.open, id)
		a.Liveness.waiting.Add(-1)
	}
}

// Wait returns when no answer is under way any more. The context that was given
// to serve must have ended.
func (a *ServerRequests) Wait() { a.wg.Wait() }

func (a *ServerRequests) answer(ctx context.Context, m wire.Message, c *call.Call) wire.Message {
	result, err := a.result(ctx, m, c)
	if err != nil {
		return wire.Message{ID: m.ID, Error: err}
	}
	return wire.Message{ID: m.ID, Result: result}
}

func (a *ServerRequests) result(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	if by := askAnswers[m.Method]; by != nil {
		return by(a, ctx, m, c)
	}
	return nil, wire.Errorf(wire.CodeMethodNotFound, "the client does not know the method %.100q", m.Method)
}

// askAnswers are the requests that a server may send.
var askAnswers = map[string]func(a *ServerRequests, ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error){
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
	cancelled := wire.Raw(`{"action":"cancel"}`)
	if c == nil || c.Client == nil || !c.Client.Can("elicitation") {
		return cancelled, nil
	}
	mode := wire.ValueOf(m.Params).Get("mode").Str()
	if mode == "" {
		mode = "form"
	}
	if !canElicit(c.Client, mode) {
		return nil, wire.Errorf(wire.CodeInvalidParams, "the client does not support elicitation in the mode %.40q", mode)
	}
	return relay(ctx, m, c, func() (wire.Raw, *wire.Error) { return cancelled, nil })
}

func (*ServerRequests) sample(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	unanswered := func() (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(codeLapsed, "the sampling request was not answered")
	}
	switch {
	case c == nil || c.Client == nil:
		return unanswered()
	case !c.Client.Can("sampling"):
		return nil, wire.Errorf(wire.CodeMethodNotFound, "the client does not support sampling")
	case wire.ValueOf(m.Params).Get("tools").Exists() && !c.Client.Can("sampling", "tools"):
		return nil, wire.Errorf(wire.CodeInvalidParams, "the client does not support sampling with tools")
	}
	return relay(ctx, m, c, unanswered)
}

var errNoRoots = wire.Errorf(wire.CodeMethodNotFound, "the client does not support roots")

// clientRoots asks the client for its roots.
func clientRoots(ctx context.Context, m wire.Message, c *call.Call) (wire.Raw, *wire.Error) {
	unanswered := func() (wire.Raw, *wire.Error) {
		return nil, wire.Errorf(wire.CodeInternal, "the client cannot be reached")
	}
	switch {
	case c == nil || c.Client == nil:
		return unanswered()
	case !c.Client.Can("roots"):
		return nil, errNoRoots
	}
	return relay(ctx, m, c, unanswered)
}

// relay puts the question to the client of the call. An error of the client's
// is the server's to read; every other reason counts as no answer.
func relay(ctx context.Context, m wire.Message, c *call.Call, unanswered func() (wire.Raw, *wire.Error)) (wire.Raw, *wire.Error) {
	result, err := c.Back.Ask(ctx, m.Method, m.Params)
	if err == nil {
		return result, nil
	}
	if refusal, ok := errors.AsType[*wire.Error](err); ok {
		return nil, refusal
	}
	return unanswered()
}

// rootsResult is the answer to roots/list.
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

// nobody is the back channel of the gateway's own calls.
type NoClient struct{}

func (NoClient) Notify(string, wire.Raw) {}

func (NoClient) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeInternal, "nobody is there to be asked")
}
