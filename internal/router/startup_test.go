package router

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

var startingNow = &catalog.Down{Reason: "starting", Starting: true}

// remembered is the source of an upstream whose first attempt takes long, and whose catalog
// an earlier run has remembered.
func remembered(t *testing.T, down *catalog.Down) catalog.Source {
	src := filesSource(t)
	src.Down = down
	return src
}

// outcome is the answer of a request, and how long it took.
type outcome struct {
	text string
	took time.Duration
}

// begin sends a request whose answer is waited for.
func (h *testRouter) begin(ctx context.Context, method string) <-chan outcome {
	got := make(chan outcome, 1)
	begin := time.Now()
	go func() {
		res, err := h.Handle(ctx, newCall(method, `{}`, &recorder{}))
		text := string(res.Raw)
		if err != nil {
			text = err.Error()
		}
		got <- outcome{text, time.Since(begin)}
	}()
	return got
}

// startCase is a request during the start, and what it waits for.
type startCase struct {
	name    string
	sources []catalog.Source
	started bool             // the time for all upstreams is over
	later   []catalog.Source // after the time that run has
	want    string           // in the answer
	took    time.Duration
}

func (c startCase) run(t *testing.T, method string, after time.Duration) {
	t.Run(c.name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newTestRouter(t, answers(`{}`), c.sources...)
			if c.started {
				close(h.started)
			}
			got := h.begin(t.Context(), method)
			if c.later != nil {
				time.Sleep(after)
				h.Swap(h.routes(c.later))
			}
			if got := <-got; !strings.Contains(got.text, c.want) || got.took != c.took {
				t.Errorf("after %s: %s; want %s after %s", got.took, got.text, c.want, c.took)
			}
		})
	})
}

// A list waits for the first upstream if the time for all of them is over, and there is none
// yet.
func TestListWaitsForTheFirstUpstream(t *testing.T) {
	failed := &catalog.Down{Reason: "cannot start"}
	for _, test := range []startCase{
		{"one comes", []catalog.Source{source(t, "files", startingNow), source(t, "slow", startingNow)}, true,
			[]catalog.Source{filesSource(t), source(t, "slow", startingNow)}, `"files__read"`, 20 * time.Second},
		{"none comes", []catalog.Source{source(t, "files", startingNow)}, true,
			[]catalog.Source{source(t, "files", startingNow)}, "the upstream files is unavailable: starting", firstListWait},
		{"one fails, the other goes on", []catalog.Source{source(t, "files", startingNow), source(t, "slow", startingNow)}, true,
			[]catalog.Source{source(t, "files", failed), source(t, "slow", startingNow)}, "files (cannot start), slow (starting)", firstListWait},
		{"all fail", []catalog.Source{source(t, "files", startingNow)}, true,
			[]catalog.Source{source(t, "files", failed)}, "the upstream files is unavailable: cannot start", 20 * time.Second},
		{"all have failed", []catalog.Source{source(t, "files", failed)}, true, nil, "the upstream files is unavailable: cannot start", 0},
		{"one is there", []catalog.Source{filesSource(t), source(t, "slow", startingNow)}, true, nil, `"files__read"`, 0},
		{"one is remembered", []catalog.Source{remembered(t, nil), source(t, "slow", startingNow)}, true, nil, `"files__read"`, 0},
		{"there is no upstream", nil, true, nil, `"tools":[]`, 0},
	} {
		test.run(t, "tools/list", 20*time.Second)
	}
}

// The wait for all upstreams and the wait for the first one together are no longer than hosts
// wait.
func TestListWaitsNoLongerThanHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestRouter(t, answers(`{}`), source(t, "files", startingNow))
		got := h.begin(t.Context(), "tools/list")
		time.Sleep(10 * time.Second)
		close(h.started)
		if got := <-got; got.took != firstListWait {
			t.Errorf("answered after %s: %s", got.took, got.text)
		}
	})
}

// Lists that a host sends one after the other wait no longer than one list. An upstream that starts
// later, after a reload, is waited for anew.
func TestListsWaitTogetherForTheFirstUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starting := func() catalog.Source {
			return source(t, "files", &catalog.Down{Since: time.Now(), Reason: "starting", Starting: true})
		}
		h := newTestRouter(t, answers(`{}`), starting())
		close(h.started)
		lists := []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
		wait := func(want time.Duration) {
			begin := time.Now()
			for _, method := range lists {
				if got := <-h.begin(t.Context(), method); !strings.Contains(got.text, "the upstream files is unavailable: starting") {
					t.Errorf("%s: %s", method, got.text)
				}
			}
			if got := time.Since(begin); got != want {
				t.Errorf("the lists took %s together, want %s", got, want)
			}
		}
		time.Sleep(time.Hour) // the gateway is up, and the first host comes
		wait(firstListWait)
		wait(0)
		h.Swap(h.routes([]catalog.Source{starting()}))
		wait(firstListWait)
	})
}

func TestWaitForTheFirstUpstreamEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, method := range []string{"tools/list", "server/discover"} {
			h := newTestRouter(t, answers(`{}`), source(t, "files", startingNow))
			if method == "tools/list" {
				close(h.started)
			}
			ctx, cancel := context.WithCancel(t.Context())
			got := h.begin(ctx, method)
			synctest.Wait()
			cancel()
			if got := <-got; got.text != context.Canceled.Error() {
				t.Errorf("%s: %s", method, got.text)
			}
		}
	})
}

// Descriptions wait for instructions of which nothing is remembered, but not for long.
func TestDescriptionsWaitForInstructions(t *testing.T) {
	const instructions, all = `"instructions":"# files\n\nReads files."`, `"prompts":{"listChanged":true}`
	failed := &catalog.Down{Reason: "cannot start"}
	other := source(t, "other", nil)
	other.Revision, other.Capabilities = wire.Rev20251125, wire.Raw(`{"tools":{}}`)
	for _, test := range []startCase{
		{"in time", []catalog.Source{source(t, "files", startingNow)}, false, []catalog.Source{filesSource(t)}, instructions, 2 * time.Second},
		{"one of two", []catalog.Source{source(t, "files", startingNow), source(t, "slow", startingNow)}, false,
			[]catalog.Source{filesSource(t), source(t, "slow", startingNow)}, instructions, descriptionWait},
		{"not in time", []catalog.Source{source(t, "files", startingNow)}, false, []catalog.Source{source(t, "files", startingNow)}, all, descriptionWait},
		{"remembered", []catalog.Source{remembered(t, startingNow)}, false, nil, instructions, 0},
		{"all have failed", []catalog.Source{source(t, "files", failed)}, true, nil, all, 0},
		{"all fail", []catalog.Source{source(t, "files", startingNow)}, false, []catalog.Source{source(t, "files", failed)}, all, 2 * time.Second},
		{"late, beside one that is up", []catalog.Source{other, source(t, "slow", startingNow)}, true, nil, all, 0},
		{"late, beside none", []catalog.Source{source(t, "files", startingNow)}, true, []catalog.Source{filesSource(t)}, instructions, 2 * time.Second},
	} {
		test.run(t, "server/discover", 2*time.Second)
	}
}

// The end of the time for all upstreams ends the wait for descriptions beside an upstream
// that is up, although no routes come.
func TestDescriptionsWaitUntilTheStartIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := filesSource(t)
		h := newTestRouter(t, answers(`{}`), up, source(t, "slow", startingNow))
		got := h.begin(t.Context(), "server/discover")
		time.Sleep(time.Second)
		close(h.started)
		if got := <-got; got.took != time.Second {
			t.Errorf("answered after %s: %s", got.took, got.text)
		}
	})
}

// A caller does not wait for upstreams that they may not know.
func TestNoWaitForHiddenUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestRouter(t, answers(`{}`), source(t, "files", startingNow))
		h.Swap(&Routes{Table: catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Deny})}, []catalog.Source{source(t, "files", startingNow)})})
		for _, method := range []string{"tools/list", "server/discover"} {
			if got := <-h.begin(t.Context(), method); got.took != 0 {
				t.Errorf("%s took %s: %s", method, got.took, got.text)
			}
		}
		close(h.started)
		if got := <-h.begin(t.Context(), "tools/list"); got.took != 0 {
			t.Errorf("the list took %s: %s", got.took, got.text)
		}
	})
}

// Lists of upstreams that are there cost nothing for the waits.
func TestReadyListsDoNotAllocate(t *testing.T) {
	h := newTestRouter(t, answers(`{}`), filesSource(t))
	close(h.started)
	c := newCall("tools/list", `{}`, &recorder{})
	if _, err := h.awaitView(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = h.awaitView(context.Background(), c) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// lostUpstream is an upstream whose attempts to connect a test decides.
type lostUpstream struct {
	Upstream
	asked chan struct{} // gets a value for each attempt
	fail  chan error
}

func (l lostUpstream) Reconnect(ctx context.Context, _ *call.Call) error {
	l.asked <- struct{}{}
	select {
	case err := <-l.fail:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A call of a name at an upstream of which nothing is known has an attempt to connect made, and waits for its
// lists, or for the end of the attempt.
func TestCallReconnectsAnUnknownUpstream(t *testing.T) {
	down := &catalog.Down{Reason: "cannot connect to the server"}
	for name, tt := range map[string]struct {
		later []catalog.Source // when the attempt has succeeded
		fail  error
		want  string
	}{
		"it comes":            {[]catalog.Source{filesSource(t)}, nil, ""},
		"it has no such tool": {[]catalog.Source{source(t, "files", nil)}, nil, `unknown tool: "files__read"`},
		"another comes":       {[]catalog.Source{source(t, "files", down), source(t, "other", nil)}, wire.Errorf(wire.CodeInternal, "the second reason"), "the second reason"},
		"it fails":            {nil, wire.Errorf(wire.CodeInternal, "the second reason"), "the second reason"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := lostUpstream{answers(`{"content":[]}`), make(chan struct{}, 9), make(chan error)}
				h := newTestRouter(t, nil)
				routes := func(sources ...catalog.Source) *Routes {
					r := h.routes(sources)
					r.Upstreams["files"] = up
					return r
				}
				h.Swap(routes(source(t, "files", down)))
				close(h.started)
				got := make(chan error, 1)
				go func() {
					_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
					got <- err
				}()
				synctest.Wait()
				if len(up.asked) != 1 || len(got) != 0 {
					t.Fatalf("%d attempts; answers: %d", len(up.asked), len(got))
				}
				if tt.later != nil {
					h.Swap(routes(tt.later...))
					synctest.Wait()
				}
				if tt.fail != nil {
					up.fail <- tt.fail
				}
				if err := <-got; tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				if len(up.asked) != 1 {
					t.Errorf("%d attempts", len(up.asked))
				}
			})
		})
	}
}
