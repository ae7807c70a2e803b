package frontend

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

// A snapshot has a parked call with the item and the asks for which it waits, until its client has come back.
func TestSnapshotOfParkedCall(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		began := time.Now()
		first := l.post("")
		gathered()
		_, state := first.round()
		all := l.s.Snapshot().Parked
		if len(all) != 1 {
			t.Fatalf("%d parked calls", len(all))
		}
		got := all[0]
		if got.ID == "" || got.Request == "" || got.Client == nil || got.Principal == nil {
			t.Errorf("%+v", got)
		}
		got.ID, got.Request, got.Client, got.Principal = "", "", nil, nil
		parked := began.Add(park.GatherWindow)
		want := park.Snapshot{Method: wire.MethodToolsCall, Item: "t", Since: parked, Expires: parked.Add(parkTTL), Round: 1, Asks: []string{wire.MethodElicit}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		l.post(retry(state, `{"ask-1":{"action":"decline"}}`)).result()
		if left := l.s.Snapshot().Parked; len(left) != 0 {
			t.Errorf("after the end: %+v", left)
		}
	})
}

// A snapshot has what a session has open now.
func TestSnapshotOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
		opened := time.Now()
		client := &call.Client{Key: "secret", Revision: wire.LatestLegacy}
		sess, err := s.sessions.Open(session.Config{
			Principal: call.Anonymous, Claims: session.Claims{Client: client}, Log: s.newEventLog("", 0), RootsChanged: func() {},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		x := s.newExchange(context.Background(), sinkFunc(func([]byte) bool { return true }), sender{principal: call.Anonymous}, wire.IDOf("1"))
		x.sess = sess
		if err := x.begin(); err != nil {
			t.Fatal(err)
		}
		ask, _ := sess.NewAsk()
		if err := sess.AddSubscription("x:y", func() {}); err != nil {
			t.Fatal(err)
		}
		want := session.Snapshot{
			ID: "secret", Principal: call.Anonymous, Client: client, Opened: opened, Used: opened.Add(time.Minute),
			Requests: 1, Asks: 1, Subscriptions: 1,
		}
		if got := s.Snapshot().Sessions; len(got) != 1 || got[0] != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		sess.ForgetAsk(ask)
		x.end()
		x.Cancel(nil)
		want.Requests, want.Asks = 0, 0
		if got := s.Snapshot().Sessions; len(got) != 1 || got[0] != want {
			t.Errorf("later %+v, want %+v", got, want)
		}
		s.sessions.Close(sess, session.ErrEnded)
		if got := s.Snapshot().Sessions; len(got) != 0 {
			t.Errorf("after the end %+v", got)
		}
	})
}

// A snapshot has the listen streams with what they ask for.
func TestSnapshotOfListenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Subscriptions: &testSubscriptions{set: make(map[*testSubscription]bool)}})
		r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:y","x:no"]}%s}}`, wire.EraModern)
		r.Header.Set(wire.HeaderMethod, wire.MethodListen)
		w := &recorder{header: make(http.Header), done: make(chan struct{})}
		go func() {
			defer close(w.done)
			s.ServeHTTP(w, r)
		}()
		synctest.Wait()
		got := s.Snapshot().Listens
		if len(got) != 1 || got[0].Principal == nil || got[0].Client == nil || got[0].Opened.IsZero() {
			t.Fatalf("%+v", got)
		}
		got[0].Principal, got[0].Client, got[0].Opened = nil, nil, time.Time{}
		if diff := cmp.Diff(Listen{Lists: []string{"toolsListChanged"}, Resources: 1}, got[0]); diff != "" {
			t.Error(diff)
		}
		s.Drain()
		<-w.done
		if left := s.Snapshot().Listens; len(left) != 0 {
			t.Errorf("after the end %+v", left)
		}
	})
}
