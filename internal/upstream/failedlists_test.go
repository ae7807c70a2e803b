package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// failing runs sessions with a legacy server that answers tools/list, and calls if calls is set, with fail while that
// returns true.
func failing(t *testing.T, calls bool, fail func(w http.ResponseWriter) bool, change ...func(*Options)) (*sessionsRig, *script) {
	t.Helper()
	guarded := func(answer on) on {
		return func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if !fail(w) {
				answer(w, r, m)
			}
		}
	}
	s := &script{caps: `{"tools":{}}`, on: map[string]on{wire.MethodToolsList: guarded(lists[wire.MethodToolsList])}}
	if calls {
		s.on[wire.MethodToolsCall] = guarded(func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, `{"content":[]}`) })
	}
	h, _ := startAway(t, s, change...)
	return h, s
}

// becomesDegraded waits until a list of the upstream has failed for minutes.
func (h *sessionsRig) becomesDegraded(t *testing.T) {
	t.Helper()
	time.Sleep(10 * time.Minute)
	upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Degraded)
}

// The first good call of any session has a failed list gathered at once.
func TestCallGathersFailedLists(t *testing.T) {
	for name, tc := range map[string]struct {
		sharing Sharing
		call    *call.Call
	}{
		"catalog session":        {Shared, legacyCall("ann", anything, &upstreamtest.Peer{})},
		"session for a set":      {Shared, legacyCall("ann", nothing, &upstreamtest.Peer{})},
		"session of a client":    {PerClient, legacyCall("ann", nothing, &upstreamtest.Peer{})},
		"session of a principal": {PerPrincipal, modernCallBy("carl")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var revoked atomic.Bool
				h, _ := failing(t, true, func(w http.ResponseWriter) bool {
					if revoked.Load() {
						w.WriteHeader(http.StatusUnauthorized)
					}
					return revoked.Load()
				}, func(o *Options) { o.Sharing = tc.sharing })
				good := h.call(t.Context(), tc.call)
				revoked.Store(true)
				h.becomesDegraded(t)
				if got := h.call(t.Context(), tc.call); !strings.Contains(got, "HTTP 401") {
					t.Errorf("a call is answered %s", got)
				}
				time.Sleep(5 * time.Second)
				upstreamtest.Equal(t, "state after a failed call", h.Snapshot().State, connector.Degraded)
				revoked.Store(false)
				upstreamtest.Equal(t, "the call after", h.call(t.Context(), tc.call), good)
				time.Sleep(protocol.AttemptGap)
				synctest.Wait()
				upstreamtest.Equal(t, "state after a good call", h.Snapshot().State, connector.Ready)
			})
		})
	}
}

// Calls cause no storm of requests for a list that goes on failing: there is one more for each pause.
func TestCallsDoNotStormAFailingList(t *testing.T) {
	for _, capabilities := range []string{anything, nothing} {
		synctest.Test(t, func(t *testing.T) {
			var broken atomic.Bool
			h, s := failing(t, false, func(w http.ResponseWriter) bool {
				if broken.Load() {
					w.WriteHeader(http.StatusInternalServerError)
				}
				return broken.Load()
			})
			broken.Store(true)
			h.becomesDegraded(t)
			before := len(s.got(wire.MethodToolsList))
			const calls, pauses = 6000, 10 * 60 / 30
			for range calls {
				h.call(t.Context(), legacyCall("ann", capabilities, &upstreamtest.Peer{}))
				time.Sleep(100 * time.Millisecond)
			}
			if n := len(s.got(wire.MethodToolsList)) - before; n < pauses-1 || n > 2*pauses+2 {
				t.Errorf("%d requests for the list in 10 minutes with %d calls", n, calls)
			}
			// A call that has no attempt in its pause has none in the next one either.
			time.Sleep(time.Minute)
			for range 2 {
				h.call(t.Context(), legacyCall("ann", capabilities, &upstreamtest.Peer{}))
				time.Sleep(protocol.AttemptGap)
			}
			before = len(s.got(wire.MethodToolsList))
			time.Sleep(31 * time.Second)
			upstreamtest.Equal(t, "requests in the next pause", len(s.got(wire.MethodToolsList)), before+1)
		})
	}
}

// Retry has a failed list gathered at once, and each time, but calls and Retry leave the server the pause that it asks
// for.
func TestRetryOfFailedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Int64
		h, s := failing(t, false, func(w http.ResponseWriter) bool {
			if status.Load() == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "20")
			}
			if status.Load() != 0 {
				w.WriteHeader(int(status.Load()))
			}
			return status.Load() != 0
		})
		status.Store(http.StatusInternalServerError)
		h.becomesDegraded(t)
		requests := func() int { return len(s.got(wire.MethodToolsList)) }
		for range 3 {
			before := requests()
			h.Retry()
			time.Sleep(protocol.AttemptGap)
			upstreamtest.Equal(t, "requests after Retry", requests(), before+1)
		}
		status.Store(http.StatusServiceUnavailable)
		h.Retry()
		time.Sleep(protocol.AttemptGap)
		status.Store(0)
		before := requests()
		h.Retry()
		h.call(t.Context(), legacyCall("ann", anything, &upstreamtest.Peer{}))
		time.Sleep(19 * time.Second)
		upstreamtest.Equal(t, "requests before the time", requests(), before)
		time.Sleep(2 * time.Second)
		upstreamtest.Equal(t, "state after it", h.Snapshot().State, connector.Ready)
		before = requests()
		h.Retry()
		time.Sleep(time.Second)
		upstreamtest.Equal(t, "requests after Retry of what works", requests(), before)
		status.Store(http.StatusInternalServerError)
		for h.Snapshot().State == connector.Ready {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(900 * time.Millisecond)
		upstreamtest.Equal(t, "requests since the list fails", requests(), before+1)
	})
}

// Retry has an upstream that is down connect at once.
func TestRetryOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, network := startAway(t, &script{})
		network.lose(t, h)
		time.Sleep(10 * time.Minute)
		network.set(false)
		h.Retry()
		time.Sleep(protocol.AttemptGap)
		synctest.Wait()
		upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Ready)
	})
}

// Calls of principals have no lists gathered for which the gateway itself has no credentials.
func TestCallsOfPrincipalsDoNotGatherListsWithoutCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := new(losesGrant)
		s := &script{caps: `{"tools":{}}`, on: lists}
		h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
		o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Server: Server{HTTP: serveInMemory(t, s), Era: wire.EraLegacy}, Hooks: Hooks{Observer: h.watch},
			Scoping: Scoping{Sharing: PerPrincipal}}
		o.HTTP.Credentials = k
		h.run(t, o)
		synctest.Wait()
		k.lost.Store(true)
		h.becomesDegraded(t)
		before := k.asked.Load()
		for range 600 {
			upstreamtest.Equal(t, "a call", h.call(t.Context(), modernCallBy("carl")), doneResult)
			time.Sleep(time.Second)
		}
		if n := k.asked.Load() - before; n > 21 { // its pauses take 30 s
			t.Errorf("%d attempts without credentials", n)
		}
	})
}

// losesGrant is credentials that each principal has, and the gateway itself until they are lost.
type losesGrant struct {
	grants
	lost atomic.Bool
}

func (g *losesGrant) Headers(ctx context.Context, who *call.Principal) (http.Header, error) {
	if who == nil && !g.lost.Load() {
		return http.Header{"Authorization": {"Bearer gateway"}}, nil
	}
	return g.grants.Headers(ctx, who)
}

// Operators read why a list failed, what to do about it and the id of the request at the server, as they do when the
// connection fails. Clients get none of it. Another id alone is no news.
func TestAdviceForFailedLists(t *testing.T) {
	const unaccepted = ": the credentials under headers or auth are not accepted; check that they are the right ones and have not expired"
	const forbidden = ": it knows who is asking and refuses; check the rights of the credentials under headers, and whether it lets this machine in"
	const said = ` ("{\"message\":\"no plan for [redacted]\"}")`
	const refused, answered = "the server refuses the gateway's credentials (HTTP %d)", "the server answered HTTP %d with content type application/json"
	for status, tc := range map[int]struct{ reason, advice string }{
		401: {refused, "URL answered HTTP 401" + said + unaccepted},
		403: {refused, "URL answered HTTP 403" + said + forbidden},
		429: {"the server is overloaded (HTTP %d)", "the server is overloaded (HTTP 429)" + said},
		500: {answered, "the server answered HTTP 500 with content type application/json" + said},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{caps: `{"tools":{},"prompts":{}}`}
				fail := func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("X-Request-Id", fmt.Sprintf("%.1s-%d", m.Method, len(s.got(m.Method))))
					w.WriteHeader(status)
					io.WriteString(w, `{"message":"no plan for TOKEN-9"}`)
				}
				s.on = map[string]on{wire.MethodToolsList: fail, wire.MethodPromptsList: fail}
				web := serveInMemory(t, s)
				web.Headers = map[string]string{"Authorization": "Bearer TOKEN-9"}
				core, logs := observer.New(zap.WarnLevel)
				mask := func(text string) string { return strings.ReplaceAll(text, "TOKEN-9", "[redacted]") }
				r := start(t, Options{Server: Server{HTTP: web, Era: wire.EraLegacy}, Mask: mask, Logger: zap.New(core)})
				time.Sleep(time.Minute)
				if n := len(s.got(wire.MethodToolsList)); n < 4 {
					t.Fatalf("%d attempts", n)
				}
				shot, reason := r.Snapshot(), fmt.Sprintf(tc.reason, status)
				advice := strings.Replace(tc.advice, "URL", diagnose.Show(web.URL), 1)
				upstreamtest.Equal(t, "reason", shot.Reason, "tools/list: "+reason+"; prompts/list: "+reason)
				upstreamtest.Equal(t, "advice", shot.Advice, "tools/list, prompts/list: "+advice+" (request t-1)")
				upstreamtest.Equal(t, "detail of the tools", shot.Failed.Tools.Detail, "tools/list: "+advice+" (request t-1)")
				upstreamtest.Equal(t, "detail of the prompts", shot.Failed.Prompts.Detail, "prompts/list: "+advice+" (request p-1)")
				upstreamtest.Equal(t, "snapshots", len(r.watch.all()), 1)
				lines := logs.FilterMessage("cannot gather a list").All()
				upstreamtest.Equal(t, "lines", len(lines), 2)
				if got := fmt.Sprint(lines[0].ContextMap()["error"]); !strings.HasSuffix(got, advice[strings.Index(advice, said):]+" (request t-1)") || strings.Contains(got, "TOKEN-9") {
					t.Errorf("the log says %s", got)
				}
			})
		})
	}
}
