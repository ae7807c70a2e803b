package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// startAskingReplicas starts gateways with one store in front of one asking server.
func startAskingReplicas(t *testing.T, n int) []*attackTest {
	t.Helper()
	url, shared := newAskingServer(t), new(storetest.Memory)
	out := make([]*attackTest, n)
	for i := range out {
		out[i] = startAttackOn(t, url, sharedKeys, shared)
		out[i].ask("ann", "legacy") // waits until the gateway is ready, as a load balancer does
	}
	return out
}

// deadStore is a store that one replica cannot reach any more, as if its process was killed.
type deadStore struct {
	store.Store
	dead atomic.Bool
}

// errDead is the error of a store whose server refuses connections.
var errDead = fmt.Errorf("%w: dial tcp 127.0.0.1:6379: %w", store.ErrUnavailable, syscall.ECONNREFUSED)

func (s *deadStore) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	if s.dead.Load() {
		return nil, errDead
	}
	return s.Store.Get(ctx, keys...)
}

func (s *deadStore) Delete(ctx context.Context, keys ...store.Key) error {
	if s.dead.Load() {
		return errDead
	}
	return s.Store.Delete(ctx, keys...)
}

func (s *deadStore) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	if s.dead.Load() {
		return errDead
	}
	return s.Store.Append(ctx, key, keep, ttl, entries...)
}

func (s *deadStore) Read(ctx context.Context, key store.Key, after string, max int, wait time.Duration) ([]store.Entry, error) {
	entries, err := s.Store.Read(ctx, key, after, max, wait)
	if s.dead.Load() {
		return nil, errDead
	}
	return entries, err
}

// A retry that reaches another replica continues the call that is parked at the first one. Everything
// that is refused at one replica is refused at the other.
func TestRetryReachesAnotherReplica(t *testing.T) {
	replicas := startAskingReplicas(t, 2)
	a, b := replicas[0], replicas[1]
	state := a.member(a.ask("ann", "legacy"), "requestState")
	for _, tc := range []struct{ name, who, arguments, state, reason string }{
		{"tampered", "ann", sameArguments, changed(state), "the request state was changed"},
		{"another principal's", "bob", sameArguments, state, "the request state belongs to another principal"},
		{"another profile's", "ann@coding", sameArguments, state, "the request state belongs to another principal"},
		{"for another request", "ann", otherArguments, state, "the request state belongs to another request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := b.retry(tc.who, "legacy", tc.arguments, tc.state); !strings.Contains(got, `"code":-32602`) {
				t.Errorf("got %s", got)
			}
			b.refused(t, tc.who, "request state refused", tc.reason, tc.state)
		})
	}
	// An answer is missing, so the retry gets the next round.
	got := b.modern("ann", "tools/call", "legacy__ask", fmt.Sprintf(`"name":"legacy__ask","arguments":%s,"requestState":%q`, sameArguments, state))
	next := a.member(got, "requestState")
	if next == state {
		t.Fatalf("the next round is %s", got)
	}
	if got := b.retry("ann", "legacy", sameArguments, next); !strings.Contains(got, "accept") {
		t.Errorf("the retry gets %s", got)
	}
	for name, r := range map[string]*attackTest{"the other replica": b, "the replica of the call": a} {
		if got := r.retry("ann", "legacy", sameArguments, next); !strings.Contains(got, "already used") {
			t.Errorf("a second retry at %s gets %s", name, got)
		}
	}
}

// Retries with one state at several replicas at the same moment: the call gets one answer, and nobody
// gets anything but its result or the error for a used state.
func TestRetriesAtTheSameMoment(t *testing.T) {
	replicas := startAskingReplicas(t, 3)
	state := replicas[0].member(replicas[0].ask("ann", "legacy"), "requestState")
	var wg sync.WaitGroup
	got := make([]string, len(replicas))
	for i, r := range replicas {
		wg.Go(func() { got[i] = r.retry("ann", "legacy", sameArguments, state) })
	}
	wg.Wait()
	results := 0
	for _, text := range got {
		switch {
		case strings.Contains(text, "accept"):
			results++
		case !strings.Contains(text, "already used"):
			t.Errorf("a retry gets %s", text)
		}
	}
	if results == 0 {
		t.Errorf("no retry gets the result: %q", got)
	}
}

// The question of a parked call whose client does not come back is one that was not answered in time,
// also if the call expires before the question does.
func TestAskOfAnExpiredCallLapses(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	g, _ := startLogged(t, fmt.Sprintf("bridge: {park_ttl: 1s, ask_timeout: 1h}\nupstreams: {legacy: {url: %s/legacy, era: legacy}}\n", newAskingServer(t)), false, zap.New(core))
	a := &attackTest{t: t, g: g, logs: logs, http: new(http.Client)}
	a.member(a.ask("ann", "legacy"), "requestState")
	var calls *observer.ObservedLogs
	polltest.Until(t, "the call has ended", func() bool {
		calls = logs.FilterMessage("call").FilterField(zap.String("method", wire.MethodToolsCall))
		return calls.Len() == 1
	})
	if got := fmt.Sprint(calls.All()[0].ContextMap()["asks"]); got != "[elicitation lapsed]" {
		t.Errorf("the line of the call has the asks %s", got)
	}
}

// When the replica that holds a parked call has ended or died, the retry gets an error that says so. It is retryable only if the server has certainly not got the
// answer: nobody knows what a replica that died had received.
func TestHolderOfParkedCallEnds(t *testing.T) {
	for how, want := range map[string]string{
		"ended": `"the replica that ran this call has ended","retryable":true`,
		"died":  `"the replica that ran this call has ended or cannot be reached; the server may have run it","retryable":false`,
	} {
		t.Run(how, func(t *testing.T) {
			url, shared := newAskingServer(t), new(storetest.Memory)
			dying := &deadStore{Store: shared}
			a, b := startAttackOn(t, url, sharedKeys, dying), startAttackOn(t, url, sharedKeys, shared)
			state := a.member(a.ask("ann", "legacy"), "requestState")
			b.ask("ann", "legacy") // waits until b is ready
			if how == "ended" {
				a.stop()
			} else {
				dying.dead.Store(true)
			}
			got := b.retry("ann", "legacy", sameArguments, state)
			if !strings.Contains(got, want) {
				t.Errorf("the retry gets %s", got)
			}
			if lines := b.logs.FilterMessage("a retry could not be passed to the replica that holds its call").Len(); lines != 1 {
				t.Errorf("%d lines in the log, want 1", lines)
			}
		})
	}
}

// Parked calls end when their replica begins to drain, so that a retry is told to call again although the replica is still there.
func TestHolderOfParkedCallDrains(t *testing.T) {
	replicas := startAskingReplicas(t, 2)
	a, b := replicas[0], replicas[1]
	state := a.member(a.ask("ann", "legacy"), "requestState")
	a.g.beginDrain()
	a.g.drainPassed(t.Context())
	if got := b.retry("ann", "legacy", sameArguments, state); !strings.Contains(got, `"the replica that ran this call has ended","retryable":true`) {
		t.Errorf("the retry gets %s", got)
	}
}
