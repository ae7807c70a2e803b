package polltest

import (
	"testing"
	"time"
)

// timeout is long: only a failing test waits that long.
const timeout = time.Minute

// Until waits until the condition holds. It fails the test after a minute; what names the
// condition.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !poll(condition) {
		t.Fatalf("not within %v: %s", timeout, what)
	}
}

// UntilNil calls f until it returns no error. It fails the test after a minute.
func UntilNil(t testing.TB, what string, f func() error) {
	t.Helper()
	var err error
	if !poll(func() bool { err = f(); return err == nil }) {
		t.Fatalf("not within %v: %s: %v", timeout, what, err)
	}
}

func poll(condition func() bool) bool {
	end := time.Now().Add(timeout)
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
