package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Link is a pair of streams to a server.
type Link struct {
	In  io.WriteCloser
	Out io.ReadCloser
	// Stop ends the server, first by closing In, and returns when it has ended. The
	// error says how it ended, for a process a *process.ExitError. Out must be read
	// meanwhile; after Stop it has ended. Stop is called once.
	Stop func() error
	// Ended returns how the server ended, as Stop does, or nil if it runs on. It is called when
	// Out has ended or the server does not read, and may wait a moment; nil: that is never known.
	Ended func() error
}

// Opener starts or connects a server. ctx bounds the start only.
type Opener func(ctx context.Context) (*Link, error)

// Conn is a conversation in which each message is a line, on one pair of streams
// (2026-07-28, basic/transports/stdio). A message that names no call belongs to one only
// if that is certain, see [protocol.Config.Addressee].
//
// Lines that are not messages are logged and skipped, since many servers print such lines.
type Conn struct {
	o        *protocol.Config
	identity *protocol.Identity
	link     *Link
	in       protocol.NotificationSink

	rev         wire.Revision // set before Dial returns
	pending     *protocol.PendingCalls
	requests    protocol.ServerRequests
	writer      *writer
	ratelog     *ratelog.Logger
	printed     *ratelog.Logger // for lines that are no message and fail no call: some servers print them all the time
	modern      atomic.Bool     // the server must not send requests
	printedText atomic.Bool     // the server printed text that is not a message
	quoted      atomic.Bool     // the log has the first such text
	sentMessage atomic.Bool     // the server sent a message
	listeners   *listeners      // of a modern server
	liveness    protocol.Liveness

	life   context.Context // of requests of the server; ends with the conversation
	end    context.CancelFunc
	ended  chan struct{} // closed when reader or writer has stopped
	once   sync.Once     // closes ended
	why    error         // set before ended is closed
	reader chan struct{} // closed when the reader has stopped
	done   chan struct{} // closed when the writer has stopped
}

// newConn starts to read and to write. The caller ends it with [Conn.shut].
func newConn(o *protocol.Config, s *protocol.Identity, l *Link, in protocol.NotificationSink) *Conn {
	c := &Conn{
		o: o, identity: s, link: l, in: in,
		pending: protocol.NewPendingCalls(),
		writer:  newWriter(l.In),
		ratelog: ratelog.New(o.Logger),
		printed: ratelog.NewSums(o.Logger),
		ended:   make(chan struct{}),
		reader:  make(chan struct{}),
		done:    make(chan struct{}),
	}
	c.listeners = newListeners(in, func(in protocol.NotificationSink) *protocol.Listener {
		f := protocol.NewListener(in, o, wire.Raw(`{}`))
		f.Open = c.subscribe
		return f
	})
	c.life, c.end = context.WithCancel(context.Background())
	c.requests.Config, c.requests.Liveness = o, &c.liveness
	c.requests.Send = func(ctx context.Context, m wire.Message, _ *call.Call) { _ = c.writer.answer(ctx, &m) }
	go func() {
		defer close(c.reader)
		why := c.read()
		l.Out.Close() // so that the server does not block on a write
		if why == errOutputEnded {
			c.stop(func() error { return c.endOf(why) })
		} else {
			c.stopped(why)
		}
	}()
	go func() {
		err := c.writer.run()
		close(c.done)
		if err != nil {
			c.stop(func() error { return c.endOf(fmt.Errorf("the server does not read: %w", err)) })
		}
	}()
	return c
}

// stopped ends all calls because the conversation cannot go on.
func (l *Conn) stopped(why error) { l.stop(func() error { return why }) }

// stop is stopped for a reason that may take a moment to become known. It ends a write in progress first, since
// only then it is known which calls the server cannot have received; later ones are not sent.
func (l *Conn) stop(why func() error) {
	l.once.Do(func() {
		l.writer.close()
		l.link.In.Close()
		<-l.done
		l.why = why()
		l.pending.Close(l.why)
		close(l.ended)
	})
}

// endOf returns how the server ended, or what shows that it does not go on if it runs on all the same.
func (l *Conn) endOf(shown error) error {
	if l.link.Ended == nil {
		return shown
	}
	how := l.link.Ended()
	if how == nil {
		return shown
	}
	if end, ok := errors.AsType[*process.ExitError](how); ok && end.Memory != nil {
		return &protocol.EndError{Why: end.Memory}
	}
	return how
}

// Run implements [protocol.Conn].
func (l *Conn) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if l.modern.Load() {
		listening.Go(func() { l.listeners.run(ctx) })
	}
	var why error
	select {
	case <-ctx.Done():
		why = ctx.Err()
	case <-l.ended:
		why = l.why
	}
	if err := l.shut(); err != nil && ctx.Err() == nil {
		end, ok := errors.AsType[*process.ExitError](err)
		switch gatewayEnded := diagnose.IsLineTooLong(why) || protocol.IsHung(why); {
		case !gatewayEnded:
			why = err // the exit status says more than the end of the output
		case ok && end.Words.Text != "":
			why = &diagnose.EndedError{Err: why, Words: end.Words}
		}
	}
	stop()
	listening.Wait()
	return why
}

// shut ends the conversation. It returns when all of its goroutines have ended, with the
// error of Link.Stop. The end of its input tells the server that nobody needs its calls any
// more, so they are not cancelled.
func (l *Conn) shut() error {
	l.stopped(errors.New("the conversation was ended"))
	l.end()
	err := l.link.Stop()
	<-l.reader
	l.requests.Wait()
	l.liveness.Tasks.Finish()
	return err
}

// Call implements [protocol.Conn].
func (l *Conn) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	m, err := l.request(ctx, c, l.rev)
	if err != nil {
		return call.Result{}, err
	}
	return protocol.ResultOf(m, l.rev)
}

// request sends one request and waits for the response.
func (l *Conn) request(ctx context.Context, c *call.Call, rev wire.Revision) (wire.Message, error) {
	f, err := l.send(ctx, c, rev)
	if err != nil {
		return wire.Message{}, err
	}
	return l.receive(ctx, f)
}

// receive waits for the response to a pending call, and ends the call.
func (l *Conn) receive(ctx context.Context, f *protocol.PendingCall) (wire.Message, error) {
	defer l.pending.End(f)
	select {
	case a := <-f.Answer:
		return a.Message, markExecuted(f, a.Err)
	case <-ctx.Done():
		l.pending.End(f)
		if m, ok := f.Cancellation(); ok {
			l.writer.post(&m)
		}
		return wire.Message{}, ctx.Err()
	}
}

// markExecuted sets MayHaveExecuted in the error of a call that was lost with its
// conversation and may have been sent: a call, most of all a large one, is a likely reason
// for the end of a process.
func markExecuted(f *protocol.PendingCall, err error) error {
	lost, ok := err.(*protocol.CallError)
	if !ok || !lost.ConnectionLost || lost.NotSent {
		return err
	}
	spent := *lost
	spent.MayHaveExecuted = true
	if size := len(f.Call.Params); size > protocol.LargeCall {
		spent.Reason += fmt.Sprintf("; the call was %.1f MiB large, which may be the reason", float64(size)/(1<<20))
	}
	return &spent
}

// send sends a request. The caller ends the pending call.
func (l *Conn) send(ctx context.Context, c *call.Call, rev wire.Revision) (*protocol.PendingCall, error) {
	f, err := l.pending.BeginDelivered(c)
	if err != nil {
		return nil, err
	}
	m := wire.Message{ID: f.ID, Method: c.Method, Params: l.identity.Params(rev, f)}
	if err := l.writer.request(ctx, f, &m); err != nil {
		l.pending.End(f)
		if err == errClosed {
			err = &protocol.CallError{Reason: protocol.ReasonConnectionLost, NotSent: true, ConnectionLost: true, ConversationClosed: true, Cause: err}
		}
		return nil, err
	}
	return f, nil
}

// Unwritten returns how many bytes wait to be written.
func (l *Conn) Unwritten() int {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	return len(l.writer.pending)
}

// Notify implements [protocol.Conn].
func (l *Conn) Notify(method string) { l.writer.post(&wire.Message{Method: method}) }

// Probe implements [protocol.Conn]. Failures of other sessions say nothing about this
// process.
func (l *Conn) Probe(why protocol.Suspicion) {
	if why == protocol.ConnectionFailed {
		return
	}
	l.liveness.Check(l.life, protocol.Probe{Why: why, Pending: l.pending, Log: l.o.Logger, Ask: l.Ping, Hung: l.stopped})
}

// Ping implements [protocol.Conn].
func (l *Conn) Ping(ctx context.Context) error {
	method := wire.MethodPing
	if l.modern.Load() {
		method = wire.MethodDiscover
	}
	m, err := l.request(ctx, &call.Call{Method: method, Back: protocol.NoClient{}}, l.rev)
	if err != nil || m.Error != nil {
		return err
	}
	_, err = protocol.ResultOf(m, l.rev)
	return err
}

// Traits implements [protocol.Conn].
func (l *Conn) Traits() protocol.Traits {
	modern := l.modern.Load()
	return protocol.Traits{Sessions: protocol.SessionProcess, Listens: modern, Asks: !modern}
}

// read handles the messages of the server until its output ends.
func (l *Conn) read() error {
	lines := wire.NewLineReader(l.liveness.CountReads(l.link.Out), l.o.MaxMessage)
	for first := true; ; first = false {
		bound := int64(l.o.MaxMessage) * beforeFirstMessage
		if l.sentMessage.Load() {
			bound = int64(l.o.MaxMessage) * afterFirstMessage
		}
		lines.SetMaxLine(bound)
		line, err := lines.Next()
		if first && wire.HasBOM(line) {
			// Programs on Windows begin their output with it. Anywhere else it is
			// a violation of the protocol.
			if line = bytes.TrimLeft(line[len("\xef\xbb\xbf"):], " \t"); len(line) == 0 {
				continue
			}
		}
		switch {
		case err == nil:
			l.take(line)
		case errors.Is(err, wire.ErrTooLarge):
			l.tooLarge(lines.Oversized().ResponseID())
		case errors.Is(err, wire.ErrLineTooLong):
			return &diagnose.LineTooLongError{Limit: bound}
		case errors.Is(err, io.EOF):
			return errOutputEnded
		default:
			return fmt.Errorf("the server's output cannot be read: %w", err)
		}
	}
}

// errOutputEnded ends a conversation with a server that sends nothing more.
var errOutputEnded = errors.New("the server closed its output")

// take handles one line: a message, or a batch in revisions that have batches.
func (l *Conn) take(line []byte) {
	if line[0] == '[' && wire.Check(line, l.o.Limits, wire.Lenient) == nil {
		for m := range wire.ValueOf(line).Elements() {
			l.takeOne(m.Raw())
		}
		return
	}
	l.takeOne(line)
}

func (l *Conn) takeOne(text []byte) {
	m, err := wire.ParseUpstream(text, l.o.Limits)
	if err != nil || !m.IsResponse() {
		l.o.Throttle.Received(m.IsRequest())
	}
	if err != nil {
		l.malformed(text, m.ID, err)
		return
	}
	if !l.sentMessage.Swap(true) {
		l.o.Owner.Printed(nil)
	}
	switch {
	case m.IsResponse():
		l.pending.Deliver(m) // a response that nobody waits for is to a cancelled request
	case m.IsNotification():
		l.notified(m)
	case l.modern.Load():
		l.ratelog.Warn("a modern server sent a request, which is not allowed", zap.String("method", plaintext.Truncate(m.Method, diagnose.MaxExcerpt)))
	default:
		l.requests.Serve(l.life, m, l.o.Addressee(l.pending, m))
	}
}

func (l *Conn) notified(m wire.Message) {
	switch wire.MethodOf(m.Method).Scope {
	case wire.ScopeProgressToken:
		l.o.Progress(l.pending, m.Params)
		return
	case wire.ScopeRequest:
		if !l.requests.Cancelled(m.Params) {
			l.listenCancelled(m.Params)
		}
		return
	case wire.ScopeSubscription:
		l.acknowledged(m.Params)
		return
	}
	if c := l.o.Addressee(l.pending, m); c != nil && !wire.MethodOf(m.Method).Standalone() {
		c.Back.Notify(m.Method, m.Params)
		return
	}
	l.in.Notified(m.Method, protocol.WithoutSubscription(m.Params))
}

// malformed handles a line that is not a message. If it has the id of a call, only that
// call fails. The answer to a call is not quoted: it may repeat what a client has sent.
func (l *Conn) malformed(text []byte, id wire.ID, why error) {
	log, greeted := l.printed, l.sentMessage.Load()
	f := l.pending.Get(id)
	if f != nil {
		l.pending.Fail(f, &protocol.CallError{Reason: "the server's answer is malformed", Cause: why})
		log = l.ratelog
	} else {
		l.o.Owner.Skipped(text)
	}
	if !l.printedText.Swap(true) && !greeted {
		l.o.Owner.Printed(text)
	}
	fields := []zap.Field{zap.Int("bytes", len(text)), zap.Error(why)}
	if (f == nil || !greeted) && !l.quoted.Swap(true) {
		fields = append(fields, zap.String("text", diagnose.Excerpt(text, l.o.Mask)))
	}
	log.Warn("a line of the server is no message", fields...)
}

// tooLarge handles a line over the size limit. If it has the id of a call, that call
// fails.
func (l *Conn) tooLarge(id wire.ID) {
	if f := l.pending.Get(id); f != nil {
		l.pending.Fail(f, &protocol.CallError{Reason: fmt.Sprintf("the server's answer is larger than %d bytes", l.o.MaxMessage), TooLarge: true})
	}
	l.ratelog.Warn("a line of the server is over the size limit", zap.Int("limit", l.o.MaxMessage))
}

// A line that is this many times longer than the limit of a message ends the conversation.
// A shorter line over the limit fails one call at most, and the lines after it are usable.
// The limit is higher for a server that has sent a message.
const (
	beforeFirstMessage = 2
	afterFirstMessage  = 16
)
