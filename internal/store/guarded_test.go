package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

func TestContractOfGuarded(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		return store.NewGuarded(new(storetest.Memory), store.NewMetrics(), func(bool, error) {})
	})
}

// failing is a store whose Get and Put do what the test says.
type failing struct {
	storetest.Memory
	mu    sync.Mutex
	err   error // of Get and Put
	reads bool  // Get works even so
	hangs bool  // until the context ends
	asked int
}

// set sets the error of all operations from now on.
func (f *failing) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// setHangs says whether operations hang from now on.
func (f *failing) setHangs(hangs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = hangs
}

// count returns how many operations there were.
func (f *failing) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *failing) fail(ctx context.Context) error {
	f.mu.Lock()
	f.asked++
	hangs, err := f.hangs, f.err
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *failing) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	err := f.fail(ctx)
	if f.reads {
		err = nil
	}
	return make([][]byte, len(keys)), err
}

func (f *failing) Put(ctx context.Context, _ store.Key, _ []byte, _ time.Duration) error {
	return f.fail(ctx)
}

// guarded runs a test with a guarded store, in a bubble of time. changes are its changes so far.
func guarded(t *testing.T, test func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool)) {
	synctest.Test(t, func(t *testing.T) {
		f, changes := &failing{}, new([]bool)
		g := store.NewGuarded(f, store.NewMetrics(), func(up bool, why error) {
			if up != (why == nil) {
				t.Errorf("up is %v, because of %v", up, why)
			}
			*changes = append(*changes, up)
		})
		ctx, end := context.WithCancel(t.Context())
		go g.Run(ctx)
		synctest.Wait()
		test(t, f, g, changes)
		end()
		synctest.Wait()
	})
}

func put(ctx context.Context, g *store.Guarded) error {
	return g.Put(ctx, store.Key{Kind: "kind"}, nil, time.Hour)
}

func TestCircuit(t *testing.T) {
	guarded(t, func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool) {
		boom := errors.Join(store.ErrUnavailable, errors.New("boom"))
		f.set(boom)
		for range 2 {
			if err := put(t.Context(), g); err != boom {
				t.Errorf("the error is %v", err)
			}
		}
		f.set(nil)
		if err := put(t.Context(), g); err != nil { // ends the row
			t.Error(err)
		}
		f.set(boom)
		for range 3 {
			_ = put(t.Context(), g)
		}
		if up, since, why := g.Health(); up || since != time.Now() || why != boom {
			t.Errorf("after three failures up is %v since %v: %v", up, since, why)
		}
		asked := f.count()
		const want = "the store is not available\nboom (it was not asked again)"
		if err := put(t.Context(), g); !errors.Is(err, store.ErrUnavailable) || err.Error() != want || f.count() != asked {
			t.Errorf("the store was asked %d times more; the error is %v", f.count()-asked, err)
		}
		time.Sleep(2100 * time.Millisecond)
		if n := f.count() - asked; n < 3 || n > 5 {
			t.Errorf("%d probes in 2 s, want one every half second", n)
		}
		f.set(nil)
		time.Sleep(501 * time.Millisecond)
		if err := put(t.Context(), g); err != nil {
			t.Error(err)
		}
		if up, _, why := g.Health(); !up || why != nil || len(*changes) != 2 || (*changes)[0] || !(*changes)[1] {
			t.Errorf("up is %v, because of %v; the changes were %v", up, why, *changes)
		}
	})
}

// A store that refuses writes counts as away until it takes them again.
func TestStoreThatRefusesWrites(t *testing.T) {
	guarded(t, func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool) {
		f.reads = true
		f.set(errors.Join(store.ErrUnavailable, errors.New("full")))
		for range 60 {
			_ = put(t.Context(), g)
			_, _ = g.Get(t.Context(), store.Key{Kind: "kind"})
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if !slices.Equal(*changes, []bool{false}) {
			t.Errorf("changes %v, want it away", *changes)
		}
		f.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(*changes, []bool{false, true}) {
			t.Errorf("changes %v, want it back", *changes)
		}
	})
}

// A store that nobody uses is probed too.
func TestProbesOfAnIdleStore(t *testing.T) {
	guarded(t, func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool) {
		time.Sleep(time.Second)
		f.set(store.ErrUnavailable)
		time.Sleep(5 * time.Second)
		if up, _, _ := g.Health(); up || len(*changes) != 1 {
			t.Errorf("up is %v after 5 s; the changes were %v", up, *changes)
		}
	})
}

// One late probe does not make a store count as away, some in a row do.
func TestLateProbes(t *testing.T) {
	guarded(t, func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool) {
		f.setHangs(true)
		time.Sleep(5400 * time.Millisecond) // the second probe begins after 5 s
		f.setHangs(false)
		time.Sleep(10 * time.Second)
		if up, _, _ := g.Health(); !up || len(*changes) > 0 {
			t.Errorf("after one late probe up is %v; the changes were %v", up, *changes)
		}
		f.setHangs(true)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if _, _, why := g.Health(); !slices.Equal(*changes, []bool{false}) || why.Error() != "the store is not available: it has not answered within 250ms" {
			t.Errorf("after many late probes the changes were %v, want it away; it is because of %v", *changes, why)
		}
		if !g.Troubled(0) {
			t.Error("a store that is away has no trouble")
		}
		f.setHangs(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(*changes, []bool{false, true}) {
			t.Errorf("the changes were %v, want it back", *changes)
		}
		if !g.Troubled(time.Minute) || g.Troubled(time.Millisecond) {
			t.Error("the time since the trouble is wrong")
		}
	})
}

func TestOperationsAreBounded(t *testing.T) {
	guarded(t, func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool) {
		f.setHangs(true)
		start := time.Now()
		err := put(t.Context(), g)
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 250*time.Millisecond {
			t.Errorf("after %v the error is %v", time.Since(start), err)
		}
		start = time.Now()
		if err := g.Put(t.Context(), store.Key{}, make([]byte, 16<<20), time.Hour); err == nil || time.Since(start) != 2250*time.Millisecond {
			t.Errorf("a large value has %v; %v", time.Since(start), err)
		}
		// A caller who gives up says nothing of the store.
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := put(ctx, g); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
			cancel()
		}
		if up, _, _ := g.Health(); !up {
			t.Error("callers who gave up made the store count as away")
		}
		f.setHangs(false)
		// A read may wait as long as it wants to.
		start = time.Now()
		if _, err := g.Read(t.Context(), store.Key{Kind: "log"}, "", 5, time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("a read ended after %v: %v", time.Since(start), err)
		}
	})
}

// One key that has something else does not make the store count as away.
func TestWrongTypes(t *testing.T) {
	guarded(t, func(t *testing.T, f *failing, g *store.Guarded, changes *[]bool) {
		f.set(store.ErrWrongType)
		for range 10 {
			if err := put(t.Context(), g); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
		}
		time.Sleep(6 * time.Second)
		if up, _, _ := g.Health(); !up || len(*changes) > 0 {
			t.Errorf("up is %v; the changes were %v", up, *changes)
		}
	})
}

func TestMetrics(t *testing.T) {
	f, m := &failing{}, store.NewMetrics()
	g := store.NewGuarded(f, m, func(bool, error) {})
	_ = put(t.Context(), g)
	f.set(store.ErrUnavailable)
	for range 5 {
		_ = put(t.Context(), g)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	g2 := store.NewGuarded(f, m, func(bool, error) {})
	_ = put(canceled, g2)
	m.Refused()
	const want = `
# HELP mcp_gateway_store_refused_total Things in the store that were refused because none of the keys has sealed them for their place.
# TYPE mcp_gateway_store_refused_total counter
mcp_gateway_store_refused_total 1
`
	for _, c := range m.Collectors() {
		if got := testutil.CollectAndCount(c, "mcp_gateway_store_refused_total"); got == 1 {
			if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
				t.Error(err)
			}
		}
	}
	for outcome, want := range map[string]float64{"ok": 1, "failed": 3, "skipped": 2, "canceled": 1} {
		if got := store.Outcomes(m, "put", outcome); got != want {
			t.Errorf("%v operations %s, want %v", got, outcome, want)
		}
	}
}
