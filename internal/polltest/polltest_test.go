package polltest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/polltest"
)

// told replaces the test that waits and records its failure.
type told struct {
	testing.TB
	failed bool
}

func (t *told) Helper()               {}
func (t *told) Fatalf(string, ...any) { t.failed = true }

func TestUntil(t *testing.T) {
	for name, wait := range map[string]func(testing.TB, func() bool){
		"Until": func(t testing.TB, holds func() bool) { polltest.Until(t, "it holds", holds) },
		"UntilNil": func(t testing.TB, holds func() bool) {
			polltest.UntilNil(t, "it holds", func() error {
				if holds() {
					return nil
				}
				return errors.New("not yet")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				soon := time.Now().Add(time.Second)
				in := &told{TB: t}
				if wait(in, func() bool { return time.Now().After(soon) }); in.failed || time.Now().Before(soon) {
					t.Errorf("what holds after a second: failed is %v after %v", in.failed, time.Since(soon))
				}
				if wait(in, func() bool { return false }); !in.failed {
					t.Error("what never holds has not failed")
				}
			})
		})
	}
}
