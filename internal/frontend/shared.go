package frontend

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/wire"
)

const (
	// restoreTimeout bounds how long the subscriptions of one session may take that its client
	// has made at another replica.
	restoreTimeout = 30 * time.Second
	// maxRestores bounds the sessions whose subscriptions are restored at the same time.
	maxRestores = 64
	// A subscription that fails is tried again after these pauses, which double.
	firstRestorePause, lastRestorePause = time.Second, 16 * time.Second
)

// tasks are goroutines that belong to no request. They end with Run.
type tasks struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

func newTasks() *tasks {
	t := &tasks{}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start runs f, unless the tasks have ended.
func (t *tasks) start(f func(ctx context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.group.Go(func() { f(t.ctx) })
	}
}

// end ends all tasks, and returns when they have ended.
func (t *tasks) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.cancel()
	t.group.Wait()
}

// loadState takes over what the other replicas know of a session that was adopted. It reports false
// if the session was ended there. Without an answer of the store the session begins without a state, which its
// next request, or the next renewal, loads.
func (s *Server) loadState(ctx context.Context, sess *session.Session) bool {
	shared := s.options.Sessions.Shared
	if shared == nil || !sess.BeginLoad() {
		return true
	}
	st, err := shared.Load(ctx, sess.ID())
	if err != nil {
		sess.LoadFailed()
		s.ratelog.Warn("the state of a session is not known here", zap.Error(err))
		return true
	}
	if st.Ended {
		s.sessions.CloseID(sess.ID(), session.ErrEnded)
		return false
	}
	sess.Apply(session.Change{Level: st.Level})
	for _, uri := range st.URIs {
		sess.Apply(session.Change{Subscribed: uri})
	}
	if sess.HasStream() {
		s.restore(sess)
	}
	return true
}

// share tells the other replicas of a change of a session that this replica has made.
func (s *Server) share(ctx context.Context, sess *session.Session, c session.Change) {
	shared := s.options.Sessions.Shared
	if shared == nil || !sess.IsSealed() {
		return
	}
	if err := shared.Change(ctx, sess.ID(), sess.Expires, c); err != nil {
		s.ratelog.Warn("the state of a session is not shared for now", zap.Error(err))
	}
}

// shareEnds tells the other replicas that sessions were ended for good. It does not block.
func (s *Server) shareEnds(ended []*session.Session) {
	if s.options.Sessions.Shared == nil || len(ended) == 0 {
		return
	}
	s.tasks.start(func(ctx context.Context) {
		for _, sess := range ended {
			s.share(ctx, sess, session.Change{Ended: true})
		}
	})
}

// SessionChanged makes a change of a session that another replica has made. It does not block.
func (s *Server) SessionChanged(id string, c session.Change) {
	if c.Ended {
		s.sessions.CloseID(id, session.ErrEnded)
		return
	}
	sess := s.sessions.Find(id)
	if sess == nil {
		return // a replica that adopts it loads its state
	}
	if sess.Apply(c); sess.HasStream() {
		s.restore(sess)
	}
}

// renewStates keeps the states of all sessions in use for another while.
func (s *Server) renewStates(ctx context.Context) {
	for _, sess := range s.sessions.Sealed() {
		if !s.loadState(ctx, sess) {
			continue
		}
		st := sess.State()
		if st.Level == wire.LevelNone && len(st.URIs) == 0 {
			continue
		}
		if s.options.Sessions.Shared.Renew(ctx, sess.ID(), st) != nil {
			return // the next round renews all
		}
	}
}

// restore subscribes to the resources that the client of a session has subscribed to at another
// replica. Each of them counts as updated, because its updates may have been missed. restore is called
// when a stream can carry them, and does not block. A subscription that fails is tried again some times
// while there is a stream, and for the next stream: the replica that has the session with the server may end
// just now, or the store may have come back just now.
func (s *Server) restore(sess *session.Session) {
	if s.options.Subscriptions == nil {
		return
	}
	wanted := sess.BeginRestore()
	if len(wanted) == 0 {
		return
	}
	s.tasks.start(func(ctx context.Context) {
		for pause := firstRestorePause; len(wanted) > 0; pause *= 2 {
			failed := false
			select {
			case s.restores <- struct{}{}:
				failed = s.restoreAll(sess, wanted)
				<-s.restores
			case <-ctx.Done():
			}
			switch {
			case sess.EndRestore():
				s.restore(sess)
				return
			case !failed || pause > lastRestorePause:
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			if !sess.HasStream() {
				return
			}
			wanted = sess.BeginRestore()
		}
	})
}

// restoreAll reports whether a subscription has failed.
func (s *Server) restoreAll(sess *session.Session, wanted []string) bool {
	ctx, cancel := context.WithTimeout(s.tasks.ctx, restoreTimeout)
	defer cancel()
	slots := make(chan struct{}, subscribeConcurrency)
	var wg sync.WaitGroup
	var failed atomic.Bool
	for _, uri := range wanted {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if s.restoreOne(ctx, sess, uri) != nil {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	return failed.Load()
}

func (s *Server) restoreOne(ctx context.Context, sess *session.Session, uri string) error {
	params := wire.SetMember(wire.Raw(`{}`), "uri", wire.String(uri))
	c := &call.Call{
		ID: requestid.New(), Method: wire.MethodResourcesSubscribe, Params: params,
		Principal: sess.Principal, Client: sess.Client, Back: unreachable{},
		ShareKey: s.callShare("", sess.Principal, sess.Client),
	}
	cancel, err := s.options.Subscriptions.Subscribe(ctx, c, uri, func(changed string, params wire.Raw) {
		sess.NotifyUpdate(stream.ResourceUpdate{Subscribed: uri, URI: changed, Params: params})
	})
	if err == nil && sess.AddRestored(uri, cancel) {
		sess.NotifyUpdate(stream.ResourceUpdate{Subscribed: uri, URI: uri, Params: params})
	}
	return err
}

// unreachable is the back channel of a call that no client waits for.
type unreachable struct{}

// Notify implements call.BackChannel.
func (unreachable) Notify(string, wire.Raw) {}

// Ask implements call.BackChannel.
func (unreachable) Ask(_ context.Context, method string, _ wire.Raw) (wire.Raw, error) {
	return unanswered(method)
}

// renewals returns a channel that says when states have to be renewed: twice while a session may be
// idle. Without states that are shared it is nil.
func (s *Server) renewals() (<-chan time.Time, func()) {
	if s.options.Sessions.Shared == nil {
		return nil, func() {}
	}
	tick := time.NewTicker(max(s.options.Limits.SessionIdle/2, time.Millisecond))
	return tick.C, tick.Stop
}
