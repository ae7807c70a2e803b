package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"mcpgateway/internal/frontend"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/replica/held"
	"mcpgateway/internal/replica/opensessions"
	"mcpgateway/internal/replica/sharedlimits"
	"mcpgateway/internal/replica/sharedresults"
	"mcpgateway/internal/replica/sharedtasks"
	"mcpgateway/internal/sessionstore"
	"mcpgateway/internal/store"
)

const (
	// maxCopied bounds the events in the store that one replica keeps for others, in messages of
	// the maximum size.
	maxCopied = 16
	// lastCopies bounds how long the last events and ends of calls may take into the store when the gateway stops.
	lastCopies = time.Second
	// sendAgain is the pause after which a message is sent again for which there was no room.
	sendAgain = 20 * time.Millisecond
)

// sharing is the gateway's part in sharing state with its replicas.
type sharing struct {
	replicas *replica.Replicas
	metrics  *replica.Metrics
	events   *sessionstore.Events
	states   *sessionstore.States
	tokens   sharedTokens
	limits   sharedLimits
	store    store.Store
	// open are the sessions at servers that another replica ends if this one dies.
	open    *opensessions.Book
	results *sharedresults.Store
	tasks   *sharedtasks.Book

	held     *held.Holder
	relist   *relister
	elicited *rate.Limiter // of the notes about elicitations
}

// share makes the gateway one of the replicas that have a store. It is called before the front end is made.
func (g *Gateway) share(s store.Store, deadAfter time.Duration) {
	metrics, open := replica.NewMetrics(), opensessions.New(s, g.replica)
	replicas := replica.New(replica.Options{
		Store: s, Name: g.replica, Logger: g.log, Metrics: metrics, MaxMessage: 2 * int(g.cfg.Limits.MaxMessage),
		DeadAfter: deadAfter, Dead: g.endLeft, Forgotten: open.Rewrite,
	})
	idle := g.cfg.Limits.SessionIdle
	g.sharing = &sharing{
		replicas: replicas, metrics: metrics,
		events:   sessionstore.NewEvents(s, idle, maxCopied*int64(g.cfg.Limits.MaxMessage)),
		states:   sessionstore.NewStates(s, idle, sessionPeers{replicas}),
		tokens:   newSharedTokens(s),
		limits:   sharedLimits{sharedlimits.New(s), replicas.Others},
		store:    s,
		held:     held.New(held.Options{Name: g.replica, Replicas: replicas, Store: s, Logger: g.ratelog}),
		relist:   &relister{notify: g.listChangedFor},
		tasks:    sharedtasks.New(s, g.replica),
		elicited: newElicitedLimit(),
		open:     open,
	}
}

// options completes the options of sessions.
func (s *sharing) options(o *frontend.Sessions) {
	o.Shared, o.Copies, o.Replicas = s.states, s.events, frontPeers{s.replicas}
}

// serve takes the notes and requests of other replicas to the front end.
func (s *sharing) serve(front *frontend.Server, elicited, grantChanged func(note []byte)) {
	for kind, heard := range map[string]func(note []byte){ // as notes, and as requests by a sender that waits
		sessionstore.KindChanged: func(note []byte) { sessionstore.Note(note, front.SessionChanged) },
		kindGrantChanged:         grantChanged,
	} {
		s.replicas.OnNote(kind, func(_ string, note []byte) { heard(note) })
		s.replicas.Handle(kind, func(_ context.Context, _ string, note []byte, _ *replica.Conversation) ([]byte, error) {
			heard(note)
			return nil, nil
		})
	}
	s.replicas.OnNote(kindListsChanged, func(string, []byte) { s.relist.heard() })
	s.replicas.OnNote(kindElicited, func(_ string, note []byte) { elicited(note) })
	for kind, heard := range front.Notes() {
		s.replicas.OnNote(kind, func(_ string, note []byte) { heard(note) })
	}
	for kind, handle := range front.Requests() {
		s.replicas.Handle(kind, func(ctx context.Context, _ string, request []byte, c *replica.Conversation) ([]byte, error) {
			return handle(ctx, request, func(msg []byte) error { return send(ctx, c, msg) })
		})
	}
}

// run runs what the gateway has to do with its replicas in a group.
func (s *sharing) run(ctx context.Context, group *errgroup.Group) {
	for _, run := range []func(context.Context){
		s.replicas.Run, s.states.Run, s.results.Run, s.open.Run, s.tasks.Run,
		func(ctx context.Context) {
			s.held.Run(ctx)
			s.relist.stop()
		},
		func(ctx context.Context) { s.events.Run(ctx, lastCopies) },
		func(ctx context.Context) { s.limits.limits.Run(ctx, lastCopies) },
	} {
		group.Go(func() error {
			run(ctx)
			return nil
		})
	}
}

// send sends a message in a conversation, and waits until there is room for it.
func send(ctx context.Context, c *replica.Conversation, msg []byte) error {
	for {
		err := c.Send(msg)
		if !errors.Is(err, replica.ErrFull) {
			return err
		}
		select {
		case <-time.After(sendAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sessionPeers are the other replicas as package sessionstore knows them.
type sessionPeers struct{ *replica.Replicas }

// maxToldNow bounds the replicas that are told one by one.
const maxToldNow = 16

// TellNow implements sessionstore.Peers.
func (p sessionPeers) TellNow(ctx context.Context, kind string, note []byte) {
	others := p.Others()
	p.Tell(kind, note) // for those that have just started, or are away
	if len(others) > maxToldNow {
		return
	}
	var group errgroup.Group
	for _, other := range others {
		group.Go(func() error {
			_, err := p.Call(ctx, other, kind, note, nil)
			return err
		})
	}
	_ = group.Wait() // the others have got it, and the rest gets the note
}

// frontPeers are the other replicas as the front end knows them.
type frontPeers struct{ *replica.Replicas }

// Call implements frontend.Replicas.
func (p frontPeers) Call(ctx context.Context, to, kind string, request []byte, receive func(msg []byte)) ([]byte, error) {
	reply, err := p.Replicas.Call(ctx, to, kind, request, func(_ *replica.Conversation, msg []byte) {
		if receive != nil {
			receive(msg)
		}
	})
	if errors.Is(err, replica.ErrGone) {
		err = fmt.Errorf("%w: %w", frontend.ErrReplicaGone, err)
	}
	return reply, err
}
