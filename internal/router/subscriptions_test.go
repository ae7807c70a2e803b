package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// fakeSubscriber counts the subscriptions to each URI.
type fakeSubscriber struct {
	oneSession
	mu     sync.Mutex
	counts map[string]int
	refuse *wire.Error
}

func (u *fakeSubscriber) Subscribe(_ context.Context, _ *call.Call, native string) (func(), error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refuse != nil {
		return nil, u.refuse
	}
	u.counts[native]++
	return func() { u.unsubscribe(native) }, nil
}

// Do answers every request with contents.
func (u *fakeSubscriber) Do(context.Context, *call.Call) (call.Result, error) {
	return call.Result{Raw: wire.Raw(`{"contents":[{}]}`)}, nil
}

func (u *fakeSubscriber) unsubscribe(native string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts[native]--; u.counts[native] == 0 {
		delete(u.counts, native)
	}
}

// subscriptionsForTest returns the subscriptions of a router whose upstream files sends
// updates. Policy refuses some of its resources, so only listed ones can be subscribed to.
func subscriptionsForTest(t *testing.T) (*Subscriptions, *fakeSubscriber) {
	t.Helper()
	p := policy.MustNew(policy.Options{
		Default:   policy.Allow,
		Upstreams: map[string]policy.Upstream{"files": {Resources: policy.Globs{Deny: []string{"*secret*"}}}},
	})
	started := make(chan struct{})
	close(started)
	u := &fakeSubscriber{counts: map[string]int{}}
	r := New(Options{Started: started, Logger: zap.NewNop(), Metrics: NewMetrics()}, &Routes{
		Table:       catalog.Build(catalog.Options{Policy: p}, []catalog.Source{listing(t, listedURIs...), source(t, "mute", nil)}),
		Upstreams:   map[string]Upstream{"files": u, "mute": u},
		Subscribers: map[string]Subscriber{"files": u},
	})
	return NewSubscriptions(r), u
}

// listedURIs are the resources of subscriptionsForTest besides file:///a.
var listedURIs = []string{"file:///", "file:///0", "file:///1", "file:///2", "file:///b", "file:///d", "file:///d/", "file:///d/e", "file:///d?x=", "file:///secret", "x://h", "x://h/d", "note:a"}

// listing returns the upstream files with more resources.
func listing(t *testing.T, uris ...string) catalog.Source {
	t.Helper()
	src := filesSource(t)
	for _, uri := range uris {
		src.Items[call.Resource] = append(src.Items[call.Resource], wire.SetMember(wire.Raw(`{"name":"x"}`), "uri", wire.String(uri)))
	}
	return src
}

// listener is a client that records its notifications.
type listener struct {
	mu  sync.Mutex
	got []string
}

func (l *listener) deliver(uri string, params wire.Raw) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, uri+" "+string(params))
}

func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.got = nil }()
	return l.got
}

func TestUpdatesReachSubscribers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		subscribed []string // each by another client
		updated    string
		want       []string // the updates of each client
	}{
		{"the resource itself", []string{"files+file:///a", "files+file:///b"}, "file:///a", []string{"files+file:///a", ""}},
		{"a part of a folder", []string{"files+file:///d", "files+file:///d/"}, "file:///d/e/f", []string{"files+file:///d/e/f", "files+file:///d/e/f"}},
		{"a part with a subscription of its own", []string{"files+file:///d", "files+file:///d/e"}, "file:///d/e", []string{"", "files+file:///d/e"}},
		{"a longer name is not a part", []string{"files+file:///d"}, "file:///de", []string{""}},
		{"a parent folder is not a part", []string{"files+file:///d/e"}, "file:///d", []string{""}},
		{"a query is not a path", []string{"files+file:///d?x="}, "file:///d?x=/y", []string{""}},
		{"a path before a query", []string{"files+x://h/d"}, "x://h/d/e?x=/y", []string{"files+x://h/d/e?x=/y"}},
		{"a non-canonical part", []string{"files+x://h/d"}, "x://h/d/E/../e", []string{""}},
		{"the root", []string{"files+file:///"}, "file:///x", []string{"files+file:///x"}},
		{"no authority is a path", []string{"files+x://h"}, "x://h2/a", []string{""}},
		{"an opaque path", []string{"files+note:a"}, "note:a/b", []string{"files+note:a/b"}},
		{"a denied resource", []string{"files+file:///d"}, "file:///d/secret", []string{""}},
		{"of another upstream", []string{"mute+file:///a", "files+file:///a"}, "file:///a", []string{"", "files+file:///a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := subscriptionsForTest(t)
			clients := make([]listener, len(tt.subscribed))
			for i, uri := range tt.subscribed {
				if cancel, err := s.Subscribe(t.Context(), newCall(wire.MethodListen, `{}`, nil), uri, clients[i].deliver); err == nil {
					defer cancel()
				}
			}
			s.Updated("files", "", wire.Raw(`{"x":1e400,"uri":`+string(wire.String(tt.updated))+`,"_meta":{"k":1}}`))
			for i, want := range tt.want {
				if want != "" {
					want += ` {"x":1e400,"uri":"` + want + `","_meta":{"k":1}}`
				}
				if got := strings.Join(clients[i].take(), "; "); got != want {
					t.Errorf("client %d got %s, want %s", i, got, want)
				}
			}
		})
	}
}

// Policy decides when an update arrives, because rights may have changed since the
// subscription.
func TestUpdateAfterPolicyChanged(t *testing.T) {
	s, _ := subscriptionsForTest(t)
	var l listener
	cancel, err := s.Subscribe(t.Context(), newCall(wire.MethodListen, `{}`, nil), "files+file:///a", l.deliver)
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	next := *s.router.Routes()
	next.Table = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Deny})}, []catalog.Source{filesSource(t)})
	s.router.Swap(&next)
	s.Updated("files", "", wire.Raw(`{"uri":"file:///a"}`))
	if got := l.take(); got != nil {
		t.Errorf("the updates %q of a denied resource arrived", got)
	}
}

// Policy uses the latest credentials of a principal: after a request with fewer groups, no
// update of a resource arrives that these groups do not allow.
func TestUpdateAfterFewerGroups(t *testing.T) {
	s, _ := subscriptionsForTest(t)
	next := *s.router.Routes()
	next.Table = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Rules: []policy.Rule{
		{Name: "staff", Effect: policy.Allow, Who: policy.Who{Groups: []string{"staff"}}},
	}})}, []catalog.Source{filesSource(t)})
	s.router.Swap(&next)
	before := &call.Principal{Subject: "ann", Groups: []string{"staff"}}
	latest := before
	s.router.latest = func(p *call.Principal) *call.Principal {
		if p.Subject == latest.Subject {
			return latest
		}
		return p
	}
	var l listener
	c := newCall(wire.MethodListen, `{}`, nil)
	c.Principal = before
	cancel, err := s.Subscribe(t.Context(), c, "files+file:///a", l.deliver)
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	update := func() int {
		s.Updated("files", "", wire.Raw(`{"uri":"file:///a"}`))
		return len(l.take())
	}
	if n := update(); n != 1 {
		t.Errorf("%d updates with the group", n)
	}
	latest = &call.Principal{Subject: "ann"}
	if n := update(); n != 0 {
		t.Errorf("%d updates after a request without the group", n)
	}
	latest = before
	if n := update(); n != 1 {
		t.Errorf("%d updates after a request with the group again", n)
	}
}

func TestSubscribeRefused(t *testing.T) {
	for _, tt := range []struct {
		name, uri string
		revision  wire.Revision
		refuse    *wire.Error
		want      string
	}{
		{"denied", "files+file:///secret", wire.Rev20251125, nil,
			`{"code":-32002,"message":"resource not found: \"files+file:///secret\"","data":{"uri":"files+file:///secret"}}`},
		{"unlisted", "files+file:///e", wire.Rev20251125, nil,
			`{"code":-32002,"message":"resource not found: \"files+file:///e\"; did you mean files+file:///a or files+file:/// or files+file:///0?","data":{"uri":"files+file:///e"}}`},
		{"neither listed nor canonical", "files+FILE:///x/../e", wire.Rev20251125, nil,
			`{"code":-32602,"message":"the URI of an unlisted resource must be canonical, and this one is not: it does not begin with a scheme in lower case; use \"files+file:///e\""}`},
		{"absent", "none+file:///secret", wire.Rev20251125, nil,
			`{"code":-32002,"message":"resource not found: \"none+file:///secret\"","data":{"uri":"none+file:///secret"}}`},
		{"absent, modern", "none+file:///secret", wire.LatestModern, nil,
			`{"code":-32602,"message":"resource not found: \"none+file:///secret\"","data":{"uri":"none+file:///secret"}}`},
		{"refused by the upstream", "files+file:///a", wire.Rev20251125,
			&wire.Error{Code: -32002, Message: "gone", Data: wire.Raw(`{"uri":"file:///a"}`)},
			`{"code":-32002,"message":"gone","data":{"uri":"files+file:///a"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, u := subscriptionsForTest(t)
			u.refuse = tt.refuse
			c := newCall(wire.MethodResourcesSubscribe, `{}`, nil)
			c.Client = &call.Client{Key: "c", Revision: tt.revision}
			_, err := s.Subscribe(t.Context(), c, tt.uri, func(string, wire.Raw) {})
			refusal, ok := errors.AsType[*wire.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, string(refusal.Append(nil))); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if len(s.set) != 0 || len(u.counts) != 0 {
				t.Errorf("%d subscriptions are left, %v at the upstream", len(s.set), u.counts)
			}
		})
	}
}

// Each client gets its own updates, no client blocks another, and no subscription is left after
// all clients have cancelled theirs.
func TestManySubscribers(t *testing.T) {
	s, u := subscriptionsForTest(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var updates sync.WaitGroup
	updates.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.Updated("files", "", wire.Raw(`{"uri":"file:///1/x"}`))
			}
		}
	})
	for i := range 100 {
		wg.Go(func() {
			for range 20 {
				uri := fmt.Sprintf("files+file:///%d", i%3)
				updates := make(chan string, 1)
				cancel, err := s.Subscribe(t.Context(), newCall(wire.MethodListen, `{}`, nil), uri, func(uri string, _ wire.Raw) {
					select {
					case updates <- uri:
					default:
					}
				})
				if err != nil {
					t.Errorf("subscribe: %v", err)
					return
				}
				if i%3 == 1 {
					if got := <-updates; got != "files+file:///1/x" {
						t.Errorf("got an update of %s", got)
					}
				}
				cancel()
				cancel()
			}
		})
	}
	wg.Wait()
	close(stop)
	updates.Wait()
	if len(s.set) != 0 || len(u.counts) != 0 {
		t.Errorf("%d subscriptions are left, %v at the upstream", len(s.set), u.counts)
	}
}

func TestAncestors(t *testing.T) {
	for uri, want := range map[string][]string{
		"file:///a/b":     {"file:///a/", "file:///a", "file:///"},
		"file:///a/":      {"file:///a", "file:///"},
		"file:///":        nil,
		"http://h/a?q=/b": {"http://h/"},
		"http://h":        nil,
		"note:a/b":        {"note:a/", "note:a"},
		"test://static":   nil,
		"no scheme/a":     nil,
		"":                nil,
	} {
		if got := slices.Collect(ancestors(uri)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	n := 0
	for range ancestors("x:" + strings.Repeat("/", maxPath-10)) {
		n++
	}
	if n > 2*maxDepth {
		t.Errorf("%d ancestors", n)
	}
}
