package frontend

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

const (
	// outsideRate bounds the log messages, and the list changes, that a replica passes to the others in a
	// second. An upstream may cause them at will.
	outsideRate = 100
	// maxAskedAtOnce bounds the replicas that are asked at the same time for the stream of a session.
	maxAskedAtOnce = 16
	// findStreamTimeout bounds the search for that stream.
	findStreamTimeout = 2 * time.Second
)

// outsideLimits bound what upstreams cause among replicas outside of calls.
type outsideLimits struct{ logs, lists *rate.Limiter }

func newOutsideLimits() outsideLimits {
	return outsideLimits{rate.NewLimiter(outsideRate, outsideRate), rate.NewLimiter(outsideRate, outsideRate)}
}

func (l *outsideLimits) allow(method string) bool {
	switch {
	case method == wire.NoteMessage:
		return l.logs.Allow()
	case stream.ListChangeOf(method) != 0:
		return l.lists.Allow()
	}
	return true
}

// notifyElsewhere has the other replicas notify the clients of an audience that have streams there.
func (s *Server) notifyElsewhere(to Audience, m *wire.Message) {
	if peers := s.options.Sessions.Replicas; peers != nil && to != (Audience{}) && s.outside.allow(m.Method) {
		peers.Tell(noteToClient, encode(sessionMessage{Session: to.Client, Principal: to.Principal, Message: m.Append(nil)}))
	}
}

// heardForClient notifies the clients of another replica's notification that have streams here.
func (s *Server) heardForClient(note []byte) {
	msg, m, err := s.decode(note)
	if err != nil || !m.IsNotification() {
		return
	}
	to := Audience{Client: msg.Session, Principal: msg.Principal}
	if sess := s.sessions.Find(to.Client); to.Principal == "" && (sess == nil || !sess.HasStream()) {
		return // list changes wait at the replica that heard of them
	}
	s.notifyHere(to, &m)
}

// askID is the id of an ask between replicas. The one that sends it to the client makes another.
var askID = wire.IDOf("1")

// askElsewhere asks the client of a session on its stream at another replica.
func (s *Server) askElsewhere(ctx context.Context, id, method string, params wire.Raw) (wire.Raw, error) {
	to := s.findStream(ctx, id)
	if to == "" {
		return unanswered(method)
	}
	q := wire.Message{ID: askID, Method: method, Params: params}
	reply, err := s.options.Sessions.Replicas.Call(ctx, to, requestAsk, encode(sessionMessage{Session: id, Message: q.Append(nil)}), nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return unanswered(method)
	}
	m, err := wire.Parse(reply, s.options.Limits.JSON)
	switch {
	case err != nil || !m.IsResponse():
		return unanswered(method)
	case m.Error != nil:
		return nil, m.Error
	}
	return m.Result, nil
}

// findStream returns the name of another replica where a session has a stream, "" if there is none.
func (s *Server) findStream(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(ctx, findStreamTimeout)
	defer cancel()
	var found atomic.Pointer[string]
	var group errgroup.Group
	group.SetLimit(maxAskedAtOnce)
	peers, q := s.options.Sessions.Replicas, encode(sessionMessage{Session: id})
	for _, other := range peers.Others() {
		group.Go(func() error {
			if reply, err := peers.Call(ctx, other, requestStream, q, nil); err == nil && len(reply) > 0 {
				found.Store(&other)
				cancel()
			}
			return nil
		})
	}
	_ = group.Wait() // replicas that do not answer do not count
	if at := found.Load(); at != nil {
		return *at
	}
	return ""
}

// handleHasStream replies nothing if the session has no stream here.
func (s *Server) handleHasStream(_ context.Context, request []byte, _ func([]byte) error) ([]byte, error) {
	msg, err := decodeMessage(request)
	if err != nil {
		return nil, err
	}
	if sess := s.sessions.Find(msg.Session); sess == nil || !sess.HasStream() {
		return nil, nil
	}
	return []byte("yes"), nil
}

// handleAsk asks the client of a session for another replica, and replies its response.
func (s *Server) handleAsk(ctx context.Context, request []byte, _ func([]byte) error) ([]byte, error) {
	msg, m, err := s.decode(request)
	if err != nil {
		return nil, err
	}
	sess := s.sessions.Find(msg.Session)
	if sess == nil || !m.IsRequest() {
		return nil, errNotHere
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.drained, cancel)() // with the stream
	answer, sent, err := askOnStream(ctx, sess, m.Method, m.Params)
	reply := wire.Message{ID: askID, Result: answer}
	switch fault, ok := err.(*wire.Error); {
	case !sent:
		return nil, errNotHere
	case ok:
		reply.Error = fault
	case err != nil:
		return nil, err
	}
	return reply.Append(nil), nil
}
