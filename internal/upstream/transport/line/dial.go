package line

import (
	"context"
	"errors"
	"fmt"

	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"

	"mcpgateway/internal/wire"
)

// dialer opens conversations over lines, in the era of the server. A process speaks one
// era, that of the first request that it understands.
//
//	initialize ──▶ a result                                       ──▶ legacy
//	     │ an error that says that the method or the revision is unknown: the same process gets server/discover, or a new one;
//	     │ the process ends: a new one gets server/discover
//	     ▼
//	server/discover ──▶ a result that lists a modern revision     ──▶ modern
//
// initialize comes first, so that a server that speaks both eras is used as a legacy one:
// such servers send requests to their client in the legacy way, which fails during a
// modern call, and the result of server/discover does not say whether a server speaks
// legacy revisions too. A timeout proves nothing: the launcher may still be downloading
// the server.
type dialer struct {
	o    *protocol.Config
	self protocol.Identity
	open Opener
	// silentAttempts counts the last attempts in a row in which every process ended
	// without a response. It belongs to the goroutine that dials.
	silentAttempts int
}

// NewDialer returns a dialer that gets a new Link from open for each attempt.
func NewDialer(o *protocol.Config, open Opener) *dialer {
	return &dialer{o: o, open: open}
}

// Dial implements [protocol.Dialer].
func (d *dialer) Dial(ctx context.Context, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	d.self = protocol.NewIdentity(d.o)
	var l *Conn
	var h protocol.Hello
	var err error
	switch d.o.Era {
	case wire.EraLegacy:
		l, h, err = d.try(ctx, in, (*Conn).initialize)
	case wire.EraModern:
		l, h, err = d.try(ctx, in, (*Conn).discover)
	default:
		l, h, err = d.detect(ctx, in)
		d.o.Memory.Remember(h.Revision.Era()) // EraUnknown on errors
	}
	if err != nil {
		return nil, protocol.Hello{}, err
	}
	return l, h, nil
}

// detect opens a conversation in the era of the server. A server whose processes all end
// without a response, for example because a key is missing, is started once in each
// attempt after the first.
func (d *dialer) detect(ctx context.Context, in protocol.NotificationSink) (*Conn, protocol.Hello, error) {
	muteBefore := d.silentAttempts
	d.silentAttempts = 0
	if muteBefore > 0 {
		byInitialize := muteBefore%2 == 1
		first := (*Conn).discover
		if byInitialize {
			first = (*Conn).negotiate
		}
		l, h, err := d.try(ctx, in, first)
		switch {
		case err == nil && byInitialize, ctx.Err() != nil:
			return l, h, err
		case err == nil:
			l.shut() // it may speak both eras
		case endedUnanswered(err):
			d.silentAttempts = muteBefore + 1
			return nil, protocol.Hello{}, err
		}
	}
	if d.o.Memory.Era() == wire.EraModern {
		if l, h, err := d.try(ctx, in, (*Conn).rediscover); err == nil || ctx.Err() != nil {
			return l, h, err
		}
	}
	l, h, err := d.try(ctx, in, (*Conn).negotiate)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errRefusedInitialize):
		refused := err
		if l, h, err = d.try(ctx, in, (*Conn).discover); err != nil && ctx.Err() == nil {
			err = refused
		}
	case endedUnanswered(err):
		ended := err
		l, h, err = d.afterEnd(ctx, in)
		switch {
		case ctx.Err() != nil:
		case endedUnanswered(err):
			d.silentAttempts = 1
		case errors.Is(err, errNotModern):
			err = ended // the server is legacy, and cannot answer server/discover
		}
	}
	return l, h, err
}

// afterEnd continues after a process that ended at initialize. If a new process answers
// server/discover, another one gets initialize again: the first may have ended for another
// reason, and a server of both eras must not be taken for a modern one.
func (d *dialer) afterEnd(ctx context.Context, in protocol.NotificationSink) (*Conn, protocol.Hello, error) {
	l, h, err := d.try(ctx, in, (*Conn).discover)
	if err != nil {
		return l, h, err
	}
	l.shut()
	l, h, err = d.try(ctx, in, (*Conn).negotiate)
	if ctx.Err() == nil && (endedUnanswered(err) || errors.Is(err, errRefusedInitialize)) {
		l, h, err = d.try(ctx, in, (*Conn).discover)
	}
	return l, h, err
}

// endedUnanswered reports whether err says that a process ended without a response.
func endedUnanswered(err error) bool {
	s, ok := errors.AsType[*diagnose.HandshakeError](err)
	return ok && s.Unanswered
}

// try starts the server and calls greet, which does the handshake.
func (d *dialer) try(ctx context.Context, in protocol.NotificationSink, greet func(*Conn, context.Context) (protocol.Hello, error)) (*Conn, protocol.Hello, error) {
	link, err := d.open(ctx)
	if err != nil {
		return nil, protocol.Hello{}, err
	}
	l := newConn(d.o, &d.self, link, in)
	h, err := greet(l, ctx)
	if err == nil {
		l.rev = h.Revision
		l.modern.Store(h.Revision.Era() == wire.EraModern)
		if l.modern.Load() {
			err = l.listeners.begin(ctx, h.Capabilities)
		}
	}
	if err == nil {
		return l, h, nil
	}
	how := l.shut()
	f, ok := errors.AsType[*protocol.CallError](err)
	// A part of a line, or a line over the limit, was read but not parsed.
	printed := l.printedText.Load() || l.liveness.Received.Load() > 0 && !l.sentMessage.Load()
	s := &diagnose.HandshakeError{Err: err, Unanswered: ok && f.ConnectionLost, NonProtocolOutput: printed}
	if s.Unanswered && how != nil {
		s.Err = how // the exit status says more than the end of the output
	}
	if e, ok := errors.AsType[*process.ExitError](how); ok {
		s.Words = e.Words
	}
	if diagnose.IsLineTooLong(l.why) {
		s.Err = l.why // the handshake is not the reason
	}
	return nil, protocol.Hello{}, s
}

// initialize opens a legacy session.
func (l *Conn) initialize(ctx context.Context) (protocol.Hello, error) {
	m, err := l.request(ctx, l.identity.InitializeCall(), wire.LatestLegacy)
	if err != nil {
		return protocol.Hello{}, err
	}
	return l.initialized(m)
}

// initialized handles the response to initialize, and sends notifications/initialized,
// which must be the next message.
func (l *Conn) initialized(m wire.Message) (protocol.Hello, error) {
	if m.Error != nil {
		return protocol.Hello{}, fmt.Errorf("the server refused initialize: %w", m.Error)
	}
	h, err := protocol.ReadInitialize(m.Result)
	if err == nil {
		l.writer.post(&wire.Message{Method: wire.NoteInitialized})
	}
	return h, err
}

var errNotModern = errors.New("the server does not answer server/discover as a server of a modern revision does; if the upstream is configured with era: modern, remove that")

// discover opens a modern conversation.
func (l *Conn) discover(ctx context.Context) (protocol.Hello, error) {
	h, _, err := l.discoverRevisions(ctx)
	if err == nil && h.Revision == "" {
		err = errNotModern
	}
	return h, err
}

// rediscover opens a modern conversation with a server that spoke only modern revisions
// before. It fails if the server lists a legacy revision now.
func (l *Conn) rediscover(ctx context.Context) (protocol.Hello, error) {
	h, legacy, err := l.discoverRevisions(ctx)
	if err == nil && (legacy || h.Revision == "") {
		err = errors.New("the server speaks legacy revisions now")
	}
	return h, err
}

func (l *Conn) discoverRevisions(ctx context.Context) (h protocol.Hello, legacy bool, err error) {
	m, err := l.request(ctx, l.identity.DiscoverCall(), wire.LatestModern)
	if err != nil {
		return protocol.Hello{}, false, err
	}
	return protocol.JudgeDiscover(m)
}

// errRefusedInitialize means that a server does not know initialize, or the legacy
// revisions, and that the process that said so did not answer server/discover.
var errRefusedInitialize = errors.New("the server refused initialize")

// negotiate opens a legacy session, or a modern conversation if the server refuses
// initialize because it does not know the legacy era.
func (l *Conn) negotiate(ctx context.Context) (protocol.Hello, error) {
	m, err := l.request(ctx, l.identity.InitializeCall(), wire.LatestLegacy)
	if err != nil {
		return protocol.Hello{}, err
	}
	refusal, err := refusesLegacy(m)
	switch {
	case err != nil:
		return protocol.Hello{}, err
	case refusal == nil:
		return l.initialized(m)
	}
	h, err := l.discover(ctx)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errRefusedInitialize, refusal)
	}
	return h, err
}

// refusesLegacy returns the refusal if the response to initialize says that the server
// speaks no legacy revision, else nil: any other error may be temporary, and must not make
// a server of both eras a modern one. err says that the server speaks no revision that the
// gateway knows.
func refusesLegacy(m wire.Message) (refusal, err error) {
	if m.Error == nil {
		version := wire.Revision(wire.ValueOf(m.Result).Get("protocolVersion").Str())
		if version.Era() == wire.EraModern {
			refusal = fmt.Errorf("it was answered with revision %s", version)
		}
		return refusal, nil
	}
	listed := protocol.SupportedBy(m.Error)
	switch {
	case len(listed) > 0 && protocol.Newest(wire.EraModern, listed) == "" && protocol.Newest(wire.EraLegacy, listed) == "":
		return nil, protocol.UnknownRevisions(listed)
	case wire.IsModernCode(m.Error.Code), m.Error.Code == wire.CodeMethodNotFound, m.Error.Code == wire.CodeInvalidParams, m.Error.Code == wire.CodeInvalidRequest:
		return m.Error, nil
	}
	return nil, nil
}
