package ratelog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestFloodIsLeftOutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		l := New(zap.New(core))
		written := func() map[string]int {
			out := map[string]int{}
			for _, e := range logs.TakeAll() {
				out[e.Level.String()+" "+e.Message]++
				if n, ok := e.ContextMap()["left_out"]; ok {
					out["left out of "+e.Message] += int(n.(int64))
				}
			}
			return out
		}
		want := func(what string, want map[string]int) {
			t.Helper()
			if diff := cmp.Diff(want, written()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { l.Info("flood", zap.String("kind", "a")) })
		}
		wg.Wait()
		want("burst", map[string]int{"info flood": burst, "debug flood": 100 - burst})
		l.Warn("flood")
		l.Info("another")
		want("other messages are not limited by the flood", map[string]int{"warn flood": 1, "info another": 1})
		time.Sleep(time.Second)
		l.Info("flood")
		l.Info("flood")
		want("a second later", map[string]int{"info flood": 1, "debug flood": 1, "left out of flood": 100 - burst})
		time.Sleep(time.Hour)
		l.Info("flood")
		l.Info("flood")
		want("much later", map[string]int{"info flood": 2, "left out of flood": 1})
		for range 100 {
			l.Log(zapcore.DebugLevel, "detail")
		}
		want("debug", map[string]int{"debug detail": 100})
	})
}

// Of lines that only repeat the first one, one a minute has the sum.
func TestSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		l := NewSums(zap.New(core))
		for range 130 {
			l.Warn("noise")
			time.Sleep(time.Second)
		}
		var leftOut []any
		for _, e := range logs.All() {
			leftOut = append(leftOut, e.ContextMap()["left_out"])
		}
		if diff := cmp.Diff([]any{nil, int64(59), int64(59)}, leftOut); diff != "" {
			t.Errorf("left_out (-want +got):\n%s", diff)
		}
	})
}

// A flood of one category of a message does not keep other categories out of the log.
func TestSortsHaveTheirOwnLimit(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	l := New(zap.New(core))
	for range 1000 {
		l.LogCategory(zapcore.InfoLevel, "refused", "missing")
	}
	logs.TakeAll()
	l.LogCategory(zapcore.InfoLevel, "refused", "expired_key")
	l.Info("refused")
	for _, e := range logs.All() {
		if n, ok := e.ContextMap()["left_out"]; ok {
			t.Errorf("%v lines of another category are counted", n)
		}
	}
	if logs.Len() != 2 {
		t.Errorf("%d lines, want those of two other categories", logs.Len())
	}
}

func TestNoLog(t *testing.T) { New(nil).Warn("nothing happens") }
