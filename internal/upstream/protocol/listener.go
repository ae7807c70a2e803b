package protocol

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Listener keeps one subscription open with a modern server as long as the conversation
// lasts (2026-07-28, basic/patterns/subscriptions). A subscription cannot be changed, so
// another set of resources needs a new one. The old one is closed when the server has
// acknowledged the new one. Meanwhile notifications may come twice.
//
// When the subscription ends or its connection breaks, the Listener opens it again and
// reports everything as changed, since notifications may have been lost. It does not try
// again if the server refuses the subscription.
type Listener struct {
	// Open sends the request for a subscription. wait returns when the subscription
	// has ended, with nil if the server ended it properly. When the ctx of wait ends,
	// it cancels the subscription. c.Back gets the acknowledgement.
	Open   func(ctx context.Context, c *call.Call) (wait func(ctx context.Context) error, err error)
	in     NotificationSink
	config *Config
	Lists  wire.Raw // the filter for changes of lists, `{}` for none

	first    *subscription // opened before run, may be nil
	requests chan *listenRequest
	ended    chan struct{} // closed when run has ended
}

// listenRequest asks for a subscription to other resources.
type listenRequest struct {
	ctx   context.Context // of the caller that waits for the result
	uris  []string
	reply chan listenResult // has a capacity of one
}

// listenResult is the result of a listenRequest.
type listenResult struct {
	honored []string
	err     error
}

// subscription is one request for notifications.
type subscription struct {
	wait  func(ctx context.Context) error
	uris  []string          // asked for
	acked chan wire.Message // takes the first acknowledgement
	ended chan error        // takes the reason when it has ended
	close context.CancelFunc
	began time.Time
	// honored lists the resources that the server has acknowledged, nil before that.
	honored *[]string
}

// NewListener returns a Listener for changes of these lists. The caller sets Open, and may
// change Lists before Begin and Run.
func NewListener(in NotificationSink, c *Config, lists wire.Raw) *Listener {
	return &Listener{in: in, config: c, Lists: lists, requests: make(chan *listenRequest), ended: make(chan struct{})}
}

// ListFilter returns the filter for all changes of lists that a server announces
// according to its capabilities.
func ListFilter(capabilities wire.Raw) wire.Raw {
	filter := wire.Raw(`{}`)
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if Declares(capabilities, kind, "listChanged") {
			filter = wire.SetMember(filter, kind+"ListChanged", wire.Raw("true"))
		}
	}
	return filter
}

// HasLists reports whether the subscription includes changes of lists.
func (f *Listener) HasLists() bool { return string(f.Lists) != `{}` }

// Begin sends the request for changes of lists before Run, so that it precedes any
// request for a list.
func (f *Listener) Begin(ctx context.Context) (err error) {
	if f.HasLists() {
		f.first, err = f.start(ctx, nil)
	}
	return err
}

// start sends the request for a subscription.
func (f *Listener) start(ctx context.Context, uris []string) (*subscription, error) {
	filter := f.Lists
	if len(uris) > 0 {
		filter = wire.SetMember(filter, "resourceSubscriptions", wire.Strings(uris))
	}
	s := &subscription{uris: uris, acked: make(chan wire.Message, 1), ended: make(chan error, 1), began: time.Now()}
	var err error
	s.wait, err = f.Open(ctx, &call.Call{
		Method: wire.MethodListen, Params: wire.SetMember(wire.Raw(`{}`), "notifications", filter), Back: acknowledgement{s.acked},
	})
	return s, err
}

// acknowledgement is the back channel of a request for a subscription.
type acknowledgement struct{ to chan wire.Message }

func (a acknowledgement) Notify(method string, params wire.Raw) {
	if method != wire.NoteAcknowledged {
		return
	}
	select {
	case a.to <- wire.Message{Method: method, Params: slices.Clone(params)}:
	default: // a second one says nothing new
	}
}

func (acknowledgement) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	return NoClient{}.Ask(ctx, method, params)
}

// Listen implements the method of [Conn].
func (f *Listener) Listen(ctx context.Context, uris []string) ([]string, error) {
	o := &listenRequest{ctx: ctx, uris: uris, reply: make(chan listenResult, 1)}
	select {
	case f.requests <- o:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.ended:
		return nil, &CallError{Reason: ReasonConnectionLost, NotSent: true, ConnectionLost: true, ConversationClosed: true}
	}
	select {
	case out := <-o.reply:
		return out.honored, out.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.ended:
		return nil, &CallError{Reason: ReasonConnectionLost, ConnectionLost: true, ConversationClosed: true}
	}
}

// Run keeps the subscription open until ctx ends, and returns when all goroutines of the
// Listener have ended. It is called once.
func (f *Listener) Run(ctx context.Context) {
	defer close(f.ended)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	r := listenerRun{Listener: f, ctx: ctx, wg: &wg}
	if f.first != nil {
		r.now = r.follow(f.first)
	} else if f.HasLists() {
		r.reopen(nil)
	}
	for {
		orders := f.requests
		var lapsed <-chan struct{}
		if r.request != nil {
			orders, lapsed = nil, r.request.ctx.Done() // one at a time
		}
		select {
		case <-ctx.Done():
			return
		case o := <-orders:
			r.take(o)
		case <-lapsed:
			r.next.close()
			r.answer(listenResult{err: r.request.ctx.Err()})
		case m := <-r.now.acks():
			r.acknowledged(r.now, m)
		case m := <-r.next.acks():
			r.replace(m)
		case err := <-r.now.ends():
			r.lost(err)
		case err := <-r.next.ends():
			r.answer(listenResult{err: errorBeforeAck(err)})
		case <-r.again:
			r.again = nil
			r.reopen(r.uris)
		}
	}
}

// listenerRun is the state of Run. It belongs to the goroutine of Run.
type listenerRun struct {
	*Listener
	ctx context.Context
	wg  *sync.WaitGroup

	now    *subscription // nil if there is none
	uris   []string      // the resources of now, or of the last one
	missed bool          // notifications may have been lost since the last one ended
	wait   Backoff
	again  <-chan time.Time // when to open the next one

	request *listenRequest // that is in progress, nil for none
	next    *subscription  // opened by request
}

func (s *subscription) acks() <-chan wire.Message {
	if s == nil || s.honored != nil {
		return nil
	}
	return s.acked
}

func (s *subscription) ends() <-chan error {
	if s == nil {
		return nil
	}
	return s.ended
}

// follow waits for the end of a subscription in a separate goroutine.
func (r *listenerRun) follow(s *subscription) *subscription {
	ctx, cancel := context.WithCancel(r.ctx)
	s.close = cancel
	r.wg.Go(func() {
		defer cancel()
		s.ended <- s.wait(ctx)
	})
	return s
}

// take starts a listenRequest.
func (r *listenerRun) take(o *listenRequest) {
	r.request = o
	if len(o.uris) == 0 && !r.HasLists() {
		r.settle(nil)
		r.answer(listenResult{})
		return
	}
	s, err := r.start(r.ctx, o.uris)
	if err != nil {
		r.answer(listenResult{err: err})
		return
	}
	r.next = r.follow(s)
}

func (r *listenerRun) answer(out listenResult) {
	r.request.reply <- out
	r.request, r.next = nil, nil
}

// replace replaces the subscription by the one that was opened last.
func (r *listenerRun) replace(m wire.Message) {
	s := r.next
	r.settle(s)
	r.acknowledged(s, m)
	r.answer(listenResult{honored: *s.honored})
}

// settle makes s the present subscription, nil for none, and closes the one before.
func (r *listenerRun) settle(s *subscription) {
	if r.now != nil {
		r.now.close()
	}
	r.now, r.again, r.uris = s, nil, nil
	if s != nil {
		r.uris = s.uris
	}
}

// acknowledged notes the resources that the server honors. It reports all of them and the
// lists as changed if notifications may have been lost.
func (r *listenerRun) acknowledged(s *subscription, m wire.Message) {
	asked := make(map[string]bool, len(s.uris))
	for _, uri := range s.uris {
		asked[uri] = true
	}
	honored := []string{}
	for el := range wire.ValueOf(m.Params).Get("notifications", "resourceSubscriptions").Elements() {
		if uri, ok := el.Text(); ok && asked[uri] {
			delete(asked, uri) // once is enough
			honored = append(honored, uri)
		}
	}
	s.honored = &honored
	if !r.missed {
		return
	}
	r.missed = false
	wanted := wire.ValueOf(r.Lists)
	for _, m := range wire.MethodsOf(wire.KindListChanged) {
		if wanted.Get(m.Capability + "ListChanged").Bool() {
			r.in.Notified(m.Name, nil)
		}
	}
	for _, uri := range honored {
		r.in.Notified(wire.NoteResourceUpdated, UpdatedParams(uri))
	}
}

// lost notes that the server or the connection has ended the subscription.
func (r *listenerRun) lost(err error) {
	s := r.now
	s.close()
	r.now, r.missed = nil, true
	r.retry(s, err)
}

// retry decides what follows the end of a subscription with this error.
func (r *listenerRun) retry(s *subscription, err error) {
	switch {
	case isRefused(err) && len(s.uris) > 0:
		// The server may refuse only one of the resources. The recipient of Renewed
		// subscribes to them again, one after the other.
		r.config.Logger.Info("the server ended the subscription to resources", zap.Int("resources", len(s.uris)), r.config.ErrorField(err))
		r.uris = nil
		r.in.Renewed()
	case isRefused(err):
		r.config.Logger.Info("the server does not tell of changes", r.config.ErrorField(err))
		return
	}
	if s.honored != nil && time.Since(s.began) >= SteadyAfter {
		r.wait.Reset()
	}
	r.again = time.After(r.wait.Next(time.Now()))
}

// reopen opens a subscription after the last one has ended.
func (r *listenerRun) reopen(uris []string) {
	if len(uris) == 0 && !r.HasLists() {
		return
	}
	s, err := r.start(r.ctx, uris)
	if err != nil {
		return // the conversation is over
	}
	r.now, r.uris = r.follow(s), uris
}

// ListenRefused wraps the error with which a server refuses a subscription for good.
type ListenRefused struct{ Err error }

func (e *ListenRefused) Error() string { return e.Err.Error() }

func (e *ListenRefused) Unwrap() error { return e.Err }

func isRefused(err error) bool {
	_, refused := errors.AsType[*ListenRefused](err)
	return refused
}

// errorBeforeAck returns the error of a subscription that ended before it was
// acknowledged.
func errorBeforeAck(err error) error {
	if err == nil {
		return &CallError{Reason: "the server ended the subscription before it began"}
	}
	if refused, ok := errors.AsType[*ListenRefused](err); ok {
		return refused.Err
	}
	return err
}

// UpdatedParams returns the params of the notification that a resource has changed.
func UpdatedParams(uri string) wire.Raw {
	return wire.SetMember(wire.Raw(`{}`), "uri", wire.String(uri))
}
