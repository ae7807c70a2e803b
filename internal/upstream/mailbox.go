package upstream

import (
	"sync"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// mailbox is the connector's inbox. What says that a list has changed it keeps,
// as one flag for each kind, until the connector's loop takes it; all else it
// passes to the observer. Its methods may be called by many goroutines at once.
type mailbox struct {
	o *Options
	// full has a token when there is something to take.
	full chan struct{}
	// forgotten and silenced have a token when the server knows neither of
	// subscriptions nor of the log level any more.
	forgotten, silenced chan struct{}
	// gap has a token when changes may not have been told.
	gap chan struct{}

	mu      sync.Mutex
	dirty   kinds
	wanted  kinds           // to be gathered although nothing says that they changed
	waiting []chan struct{} // closed when the wanted ones were
}

func newMailbox(o *Options) *mailbox {
	return &mailbox{
		o:         o,
		full:      make(chan struct{}, 1),
		forgotten: make(chan struct{}, 1), silenced: make(chan struct{}, 1), gap: make(chan struct{}, 1),
	}
}

func (b *mailbox) Notified(method string, params wire.Raw) {
	if p := b.o.persona; !p.gatherer() { // the lists are gathered in another session
		if p.passes(method) {
			b.pass(method, params)
		} else {
			p.head.box.Notified(method, params)
		}
		return
	}
	if m := wire.MethodOf(method); m.Kind == wire.KindListChanged {
		b.mark(kindsUnder(m.Capability))
	} else {
		b.pass(method, params)
	}
}

func (b *mailbox) Renewed() {
	b.o.persona.suspect()
	protocol.Poke(b.forgotten)
	protocol.Poke(b.silenced)
}

func (b *mailbox) Missed() { protocol.Poke(b.gap) }

func (b *mailbox) pass(method string, params wire.Raw) {
	if b.o.Observer != nil {
		b.o.Observer.Notified(b.o.origin(), method, params)
	}
}

func (b *mailbox) mark(k kinds) {
	b.mu.Lock()
	b.dirty |= k
	b.mu.Unlock()
	protocol.Poke(b.full)
}

// relist asks for some lists to be gathered. The channel is closed when they
// were, well or not.
func (b *mailbox) relist(k kinds) <-chan struct{} {
	done := make(chan struct{})
	b.mu.Lock()
	b.wanted |= k
	b.waiting = append(b.waiting, done)
	b.mu.Unlock()
	protocol.Poke(b.full)
	return done
}

// take returns the kinds whose lists have changed and those that are wanted all
// the same, and forgets both. The caller calls done when it has gathered them.
func (b *mailbox) take() (dirty, wanted kinds, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dirty, wanted = b.dirty, b.wanted
	waiting := b.waiting
	b.dirty, b.wanted, b.waiting = 0, 0, nil
	return dirty, wanted, func() {
		for _, w := range waiting {
			close(w)
		}
	}
}

// clear forgets what a former conversation left. Who waits for a list waits no
// more: the new conversation gathers them all.
func (b *mailbox) clear() {
	_, _, done := b.take()
	done()
	for _, token := range []chan struct{}{b.full, b.forgotten, b.silenced, b.gap} {
		select {
		case <-token:
		default:
		}
	}
}
