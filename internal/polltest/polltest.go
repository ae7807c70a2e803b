package polltest

import (
	"testing"
	"time"
)

// patience is long: only a test that fails waits to its end.
const patience = time.Minute

// Until waits until something holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !poll(holds) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

// UntilNil asks until there is no error any more.
func UntilNil(t testing.TB, what string, ask func() error) {
	t.Helper()
	var err error
	if !poll(func() bool { err = ask(); return err == nil }) {
		t.Fatalf("not within %v: %s: %v", patience, what, err)
	}
}

func poll(holds func() bool) bool {
	end := time.Now().Add(patience)
	for pause := time.Millisecond; !holds(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
