package protocol

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// feed is what a modern server tells outside of calls: one subscription, kept
// open as long as the conversation lasts (2026-07-28,
// basic/patterns/subscriptions). What a subscription is for is fixed when it is
// opened, so another set of resources means another subscription: the new one is
// opened, and when the server has acknowledged it, the old one is closed. What
// comes on both meanwhile comes twice.
//
// When the server ends the subscription, or the way to it breaks, it is opened
// again, and everything that it is for counts as changed: the server may have
// kept silent about something. A server that refuses to be listened to is left
// alone.
type Listener struct {
	// open sends the request for a subscription. wait returns when the
	// subscription has ended: nil when the server ended it in good order. When
	// its ctx ends it tells the server so. The acknowledgement goes to c.Back.
	Open  func(ctx context.Context, c *call.Call) (wait func(ctx context.Context) error, err error)
	in    NotificationSink
	log   *zap.Logger
	Lists wire.Raw // the filter for changes of lists, `{}` for none

	first  *subscription // opened before run, may be nil
	orders chan *order
	over   chan struct{} // closed when run has ended
}

// order asks for a subscription to other resources.
type order struct {
	ctx   context.Context // of who waits for the outcome
	uris  []string
	reply chan heard // has room for the one
}

// heard is what came of an order.
type heard struct {
	honored []string
	err     error
}

// subscription is one request of a feed.
type subscription struct {
	wait  func(ctx context.Context) error
	uris  []string          // asked for
	acked chan wire.Message // takes the first acknowledgement
	ended chan error        // takes why it ended
	close context.CancelFunc
	began time.Time
	// honored is what the server has acknowledged, nil before it has.
	honored *[]string
}

func NewListener(in NotificationSink, log *zap.Logger, lists wire.Raw) *Listener {
	return &Listener{in: in, log: log, Lists: lists, orders: make(chan *order), over: make(chan struct{})}
}

// listsOf returns the filter for all changes of lists that a server declares to
// tell of.
func ListFilter(capabilities wire.Raw) wire.Raw {
	filter := wire.Raw(`{}`)
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if Declares(capabilities, kind, "listChanged") {
			filter = wire.SetMember(filter, kind+"ListChanged", wire.Raw("true"))
		}
	}
	return filter
}

func (f *Listener) HasLists() bool { return string(f.Lists) != `{}` }

// Begin opens the subscription to changes of lists before run does, so that it
// is under way before any list is asked for.
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
		filter = wire.SetMember(filter, "resourceSubscriptions", stringArray(uris))
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

// Listen subscribes to these resources in the place of those before, and
// returns the ones that the server has acknowledged. On errors, which are those
// of [Conn], everything stays as it was.
func (f *Listener) Listen(ctx context.Context, uris []string) ([]string, error) {
	o := &order{ctx: ctx, uris: uris, reply: make(chan heard, 1)}
	select {
	case f.orders <- o:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.over:
		return nil, &CallError{Reason: ReasonConnectionLost, NotSent: true, ConnectionLost: true, ConversationClosed: true}
	}
	select {
	case out := <-o.reply:
		return out.honored, out.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.over:
		return nil, &CallError{Reason: ReasonConnectionLost, ConnectionLost: true, ConversationClosed: true}
	}
}

// Run keeps the subscription open until ctx ends. It is called once, and
// returns when nothing of the feed is under way.
func (f *Listener) Run(ctx context.Context) {
	defer close(f.over)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	r := feeding{Listener: f, ctx: ctx, wg: &wg}
	if f.first != nil {
		r.now = r.follow(f.first)
	} else if f.HasLists() {
		r.reopen(nil)
	}
	for {
		orders := f.orders
		var lapsed <-chan struct{}
		if r.order != nil {
			orders, lapsed = nil, r.order.ctx.Done() // one at a time
		}
		select {
		case <-ctx.Done():
			return
		case o := <-orders:
			r.take(o)
		case <-lapsed:
			r.next.close()
			r.answer(heard{err: r.order.ctx.Err()})
		case m := <-r.now.acks():
			r.acknowledged(r.now, m)
		case m := <-r.next.acks():
			r.replace(m)
		case err := <-r.now.ends():
			r.lost(err)
		case err := <-r.next.ends():
			r.answer(heard{err: orLost(err)})
		case <-r.again:
			r.again = nil
			r.reopen(r.uris)
		}
	}
}

// feeding is the state of a feed's run, whose goroutine it belongs to.
type feeding struct {
	*Listener
	ctx context.Context
	wg  *sync.WaitGroup

	now    *subscription // nil while there is none
	uris   []string      // what it is for, and was where there is none
	missed bool          // something may have been, since the last one ended
	wait   Backoff
	again  <-chan time.Time // when to open one again

	order *order        // under way, nil for none
	next  *subscription // which it opened
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

// follow waits for the end of a subscription beside the loop.
func (r *feeding) follow(s *subscription) *subscription {
	ctx, cancel := context.WithCancel(r.ctx)
	s.close = cancel
	r.wg.Go(func() {
		defer cancel()
		s.ended <- s.wait(ctx)
	})
	return s
}

// take begins what an order asks for.
func (r *feeding) take(o *order) {
	r.order = o
	if len(o.uris) == 0 && !r.HasLists() {
		r.settle(nil)
		r.answer(heard{})
		return
	}
	s, err := r.start(r.ctx, o.uris)
	if err != nil {
		r.answer(heard{err: err})
		return
	}
	r.next = r.follow(s)
}

func (r *feeding) answer(out heard) {
	r.order.reply <- out
	r.order, r.next = nil, nil
}

// replace puts the subscription that was opened last in the place of the one
// before.
func (r *feeding) replace(m wire.Message) {
	s := r.next
	r.settle(s)
	r.acknowledged(s, m)
	r.answer(heard{honored: *s.honored})
}

// settle makes s the subscription there is, nil for none, and closes the one
// that was.
func (r *feeding) settle(s *subscription) {
	if r.now != nil {
		r.now.close()
	}
	r.now, r.again, r.uris = s, nil, nil
	if s != nil {
		r.uris = s.uris
	}
}

// acknowledged notes what the server honors. What may have been missed before
// counts as changed.
func (r *feeding) acknowledged(s *subscription, m wire.Message) {
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

// lost notes that the subscription has ended without our doing.
func (r *feeding) lost(err error) {
	s := r.now
	s.close()
	r.now, r.missed = nil, true
	r.retry(s, err)
}

// retry decides what follows the end of a subscription.
func (r *feeding) retry(s *subscription, err error) {
	switch {
	case isRefused(err) && len(s.uris) > 0:
		// Perhaps it is only a resource that the server will not have any more:
		// whoever knows why each is wanted may ask again, one after the other.
		r.log.Info("the server ended the subscription to resources", zap.Int("resources", len(s.uris)), zap.String("error", plaintext.Truncate(err.Error(), MaxReason)))
		r.uris = nil
		r.in.Renewed()
	case isRefused(err):
		r.log.Info("the server does not tell of changes", zap.String("error", plaintext.Truncate(err.Error(), MaxReason)))
		return
	}
	if s.honored != nil && time.Since(s.began) >= SteadyAfter {
		r.wait.Reset()
	}
	r.again = time.After(r.wait.Next(time.Now()))
}

// reopen opens the subscription in the place of one that has ended.
func (r *feeding) reopen(uris []string) {
	if len(uris) == 0 && !r.HasLists() {
		return
	}
	s, err := r.start(r.ctx, uris)
	if err != nil {
		return // the conversation is over
	}
	r.now, r.uris = r.follow(s), uris
}

// ListenRefused wraps an error that the server itself gave for a subscription, and that
// does not pass by waiting.
type ListenRefused struct{ Err error }

func (e *ListenRefused) Error() string { return e.Err.Error() }

func (e *ListenRefused) Unwrap() error { return e.Err }

func isRefused(err error) bool {
	_, refused := errors.AsType[*ListenRefused](err)
	return refused
}

// orLost is the error of a subscription that ended before it was acknowledged.
func orLost(err error) error {
	if err == nil {
		return &CallError{Reason: "the server ended the subscription before it began"}
	}
	if refused, ok := errors.AsType[*ListenRefused](err); ok {
		return refused.Err
	}
	return err
}

// UpdatedParams are the params of the notification that a resource has changed.
func UpdatedParams(uri string) wire.Raw {
	return wire.SetMember(wire.Raw(`{}`), "uri", wire.String(uri))
}

func stringArray(texts []string) wire.Raw {
	out := wire.Raw{'['}
	for i, s := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendString(out, s)
	}
	return append(out, ']')
}
